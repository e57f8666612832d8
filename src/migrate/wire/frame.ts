/**
 * Frames of a migration's connection, the lowest layer. First each side sends its greeting, a line that names the
 * version. After it:
 *
 *      0        4      5          8
 *     +--------+------+----------+----------------+
 *     | length | kind | zeros    | length bytes   |     length: big endian, unsigned
 *     +--------+------+----------+----------------+
 *
 * A control frame is one JSON document and arrives whole. A content frame is bytes that are passed on as they come.
 */

import { KfdError, printable } from '../../errors.js';

export const headerBytes = 8;
export const frameKind = { control: 1, content: 2 } as const;
/** The longest frames, bytes. */
export const maxFrameBytes = { control: 1 << 20, content: 16 << 20 } as const;

const protocolVersion = 1;
const greetingStart = 'kfd-checkpoint migrate ';
/** The line that each side sends first. */
export const greeting = Buffer.from(`${greetingStart}${protocolVersion}\n`);
/** The longest first line that is looked at: a login shell may print anything. */
const maxGreetingBytes = 200;

/** Receives what a reader finds. */
export interface FrameSink {
  /** The greeting was right. */
  greeted?(): void;
  /** The whole text of a control frame. */
  control(payload: Buffer): void;
  /** A content frame of `length` bytes begins. */
  content(length: number): void;
  /** Bytes of that frame, as many as have come. */
  bytes(part: Buffer): void;
}

/** The header of a frame. Throws E_PROTOCOL when `length` is over the limit. */
export function frameHeader(kind: keyof typeof frameKind, length: number): Buffer {
  if (length > maxFrameBytes[kind]) {
    throw new KfdError('E_PROTOCOL', `migration: a ${kind} frame of ${length} bytes is too long`);
  }
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32BE(length, 0);
  header[4] = frameKind[kind];
  return header;
}

/** One control frame. Throws E_PROTOCOL when it is over the limit. */
export function controlFrame(payload: Buffer): Buffer {
  return Buffer.concat([frameHeader('control', payload.length), payload]);
}

/** Takes the peer's bytes in any pieces. */
export class FrameReader {
  readonly #sink: FrameSink;
  /** What has come of the greeting. */
  #begun: Buffer = Buffer.alloc(0);
  /** What has come of a header or a control frame. */
  #held: Buffer = Buffer.alloc(0);
  #heldBytes = 0;
  #state: 'greeting' | 'header' | 'control' | 'content' = 'greeting';
  /** Bytes that are missing of the frame. */
  #left = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Whether an end of the connection here cuts nothing off. */
  get isBetweenFrames(): boolean {
    return this.#state === 'header' && this.#heldBytes === 0;
  }

  /** Throws E_PROTOCOL for what is no frame. Nothing may be pushed after that. */
  push(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) rest = this.#take(rest);
  }

  /** Takes what belongs to the current part. Returns the rest. */
  #take(bytes: Buffer): Buffer {
    switch (this.#state) {
      case 'greeting':
        return this.#greet(bytes);
      case 'header':
        return this.#gather(bytes, headerBytes, (header) => this.#begin(header));
      case 'control':
        return this.#gather(bytes, this.#left, (payload) => {
          this.#state = 'header';
          this.#sink.control(payload);
        });
      case 'content': {
        const part = bytes.subarray(0, this.#left);
        this.#left -= part.length;
        if (this.#left === 0) this.#state = 'header';
        this.#sink.bytes(part);
        return bytes.subarray(part.length);
      }
    }
  }

  /** Each byte is copied once, in however small pieces they come. */
  #gather(bytes: Buffer, wanted: number, whole: (bytes: Buffer) => void): Buffer {
    if (this.#heldBytes === 0) this.#held = Buffer.alloc(wanted);
    const taken = bytes.copy(this.#held, this.#heldBytes);
    this.#heldBytes += taken;
    if (this.#heldBytes === wanted) {
      this.#heldBytes = 0;
      whole(this.#held);
    }
    return bytes.subarray(taken);
  }

  #greet(bytes: Buffer): Buffer {
    const end = bytes.indexOf(0x0a);
    const part = end === -1 ? bytes : bytes.subarray(0, end);
    this.#begun = Buffer.concat([this.#begun, part.subarray(0, maxGreetingBytes)]);
    const text = this.#begun.toString('latin1');
    const common = Math.min(text.length, greetingStart.length);
    if (text.slice(0, common) !== greetingStart.slice(0, common)) throw noGreeting(text);
    if (end === -1) {
      if (text.length > greetingStart.length + 10) throw noGreeting(text);
      return Buffer.alloc(0);
    }
    const version = text.slice(greetingStart.length);
    if (version !== String(protocolVersion)) throw otherVersion(version);
    this.#begun = Buffer.alloc(0);
    this.#state = 'header';
    this.#sink.greeted?.();
    return bytes.subarray(end + 1);
  }

  #begin(header: Buffer): void {
    const length = header.readUInt32BE(0);
    const isControl = header[4] === frameKind.control;
    const zeros = header[5] === 0 && header[6] === 0 && header[7] === 0;
    if ((!isControl && header[4] !== frameKind.content) || !zeros || length === 0) {
      throw new KfdError('E_PROTOCOL', `migration: no frame: ${header.toString('hex')}`);
    }
    const kind = isControl ? 'control' : 'content';
    if (length > maxFrameBytes[kind]) {
      throw new KfdError('E_PROTOCOL', `migration: a ${kind} frame of ${length} bytes is too long`);
    }
    this.#left = length;
    this.#state = kind;
    if (!isControl) this.#sink.content(length);
  }
}

function noGreeting(text: string): KfdError {
  const shown = printable(text.slice(0, 80));
  return new KfdError(
    'E_PROTOCOL',
    `migration: the other side does not greet, but says "${shown}"`,
    {
      hint: 'make its login shell print nothing for commands (.bashrc), and check "ssh HOST true"',
    },
  );
}

function otherVersion(version: string): KfdError {
  const theirs = printable(version.slice(0, 20));
  return new KfdError(
    'E_PROTOCOL',
    `migration: the other side speaks version "${theirs}", this one ${protocolVersion}`,
    { hint: 'install the same release of kfd-checkpoint on both hosts' },
  );
}
