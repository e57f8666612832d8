/** The bytes of a tar archive in order: from an uncompressed file by seeking, or from a decoder as they come. */

import type { FileHandle } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FilePart } from '../addon.js';
import { KfdError } from '../errors.js';

/** The hint for an archive with wrong bytes. */
export const damaged = 'the archive is damaged or incomplete; use another copy';

/** Bytes in one read of a file. */
const readBytes = 1 << 20;
/** Decoded bytes after which signals get their turn: decoders need no input for long, and never wait. */
const turnBytes = 4 << 20;

/** Every function throws E_IMAGE_CORRUPT when the archive ends too early, and E_CANCELLED. Sizes are bytes. */
export interface TarBytes {
  readonly path: string;
  take(bytes: number): Promise<Buffer>;
  /** The next bytes, read on demand. The reader may stop early; `skip` follows in any case. */
  content(bytes: number): AsyncIterable<Buffer>;
  /** Ends what `content` began, and passes over `padding` more bytes. */
  skip(padding: number): Promise<void>;
  /** Where the next bytes are, for random access. */
  place?(bytes: number): FilePart;
  /** At most `bytes` of what is left. */
  rest(bytes: number): Promise<Buffer>;
}

export function cutError(path: string): KfdError {
  return new KfdError('E_IMAGE_CORRUPT', `${path}: the end is missing`, { hint: damaged });
}

export function assertGoesOn(path: string, signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new KfdError('E_CANCELLED', `${path}: reading was interrupted`);
}

interface FileOptions {
  readonly signal?: AbortSignal;
  /** Called with the bytes of the file that are read so far. */
  readonly onProgress?: (bytesRead: number) => void;
}

/** An open file. Contents that nobody reads are not read from the disk. */
export class FileBytes implements TarBytes {
  readonly path: string;
  readonly #file: FileHandle;
  /** Bytes of the file when it was opened. */
  readonly #end: number;
  readonly #signal: AbortSignal | undefined;
  readonly #progress: ((bytesRead: number) => void) | undefined;
  #at = 0;
  #open = 0;

  constructor(path: string, file: FileHandle, end: number, options: FileOptions) {
    this.path = path;
    this.#file = file;
    this.#end = end;
    this.#signal = options.signal;
    this.#progress = options.onProgress;
  }

  async take(bytes: number): Promise<Buffer> {
    assertGoesOn(this.path, this.#signal);
    const taken = await this.rest(bytes);
    if (taken.length !== bytes) throw cutError(this.path);
    return taken;
  }

  async rest(bytes: number): Promise<Buffer> {
    const { buffer, bytesRead } = await this.#file.read(Buffer.alloc(bytes), 0, bytes, this.#at);
    this.#at += bytesRead;
    return buffer.subarray(0, bytesRead);
  }

  place(bytes: number): FilePart {
    return { path: this.path, offset: this.#at, size: bytes };
  }

  content(bytes: number): AsyncIterable<Buffer> {
    if (bytes > this.#end - this.#at) throw cutError(this.path);
    this.#open = bytes;
    return this.#read(this.#at, this.#at + bytes);
  }

  async skip(padding: number): Promise<void> {
    this.#at += this.#open + padding;
    this.#open = 0;
  }

  /** Reads one piece ahead. No read is under way after the end. */
  async *#read(start: number, end: number): AsyncGenerator<Buffer> {
    const ask = (at: number) => {
      const bytes = Math.min(end - at, readBytes);
      const piece = this.#file.read(Buffer.allocUnsafe(bytes), 0, bytes, at);
      // Its error is thrown when the piece is wanted. Until then nobody waits for it.
      piece.catch(() => undefined);
      return piece;
    };
    let ahead = start < end ? ask(start) : undefined;
    try {
      for (let at = start; ahead !== undefined; ) {
        assertGoesOn(this.path, this.#signal);
        const { buffer, bytesRead } = await ahead;
        if (bytesRead === 0) {
          throw new KfdError('E_IMAGE_CORRUPT', `${this.path}: became shorter while it was read`);
        }
        at += bytesRead;
        this.#progress?.(at);
        ahead = at < end ? ask(at) : undefined;
        yield buffer.subarray(0, bytesRead);
      }
    } finally {
      await ahead?.catch(() => undefined);
    }
  }
}

/** A stream of chunks. */
export class StreamBytes implements TarBytes {
  readonly path: string;
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #signal: AbortSignal | undefined;
  #chunk: Buffer = Buffer.alloc(0);
  #open = 0;
  #untilTurn = turnBytes;

  constructor(path: string, chunks: AsyncIterable<Buffer>, signal?: AbortSignal) {
    this.path = path;
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#signal = signal;
  }

  async take(bytes: number): Promise<Buffer> {
    const taken = await this.rest(bytes);
    if (taken.length !== bytes) throw cutError(this.path);
    return taken;
  }

  async rest(bytes: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (let left = bytes; left > 0; ) {
      const piece = await this.#next(left);
      if (piece === undefined) break;
      pieces.push(piece);
      left -= piece.length;
    }
    return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces);
  }

  content(bytes: number): AsyncIterable<Buffer> {
    this.#open = bytes;
    return this.#read();
  }

  async skip(padding: number): Promise<void> {
    this.#open += padding;
    for await (const _ of this.#read()) {
      // Skipped contents must still be read.
    }
  }

  async *#read(): AsyncGenerator<Buffer> {
    while (this.#open > 0) {
      const piece = await this.#next(this.#open);
      if (piece === undefined) throw cutError(this.path);
      this.#open -= piece.length;
      yield piece;
    }
  }

  /** At most `bytes`; undefined at the end. */
  async #next(bytes: number): Promise<Buffer | undefined> {
    while (this.#chunk.length === 0) {
      const { value, done } = await this.#chunks.next();
      if (done === true) return undefined;
      this.#chunk = value;
      this.#untilTurn -= value.length;
      if (this.#untilTurn > 0) continue;
      this.#untilTurn = turnBytes;
      await nextTurn();
      assertGoesOn(this.path, this.#signal);
    }
    const piece = this.#chunk.subarray(0, bytes);
    this.#chunk = this.#chunk.subarray(piece.length);
    return piece;
  }
}
