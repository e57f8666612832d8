/** The functions of the addon for the command line. */

import { Duplex, type Transform } from 'node:stream';
import type { ChainPart } from '../addon.js';
import type { ImageVerifier } from '../archive/verifier.js';
import { fromNative, native } from '../native.js';
import type { NativeServices } from './context.js';

/**
 * Bytes that the zstd decoder gets at once. 4 bytes can decode to 128 KiB, so a stream that grows like this gets few. A
 * hostile stream makes at most 64 MiB, once, before the reader can stop it.
 */
const inputBytes = { usual: 2048, growing: 128 } as const;
/** More output than input gets this many times marks a stream that grows. */
const growth = 64;

/** Between two pauses of a trial: the queues shall have worked before the next one. */
const betweenPausesUs = 2000;

export const nativeServices: NativeServices = {
  verifier: () => {
    const addon = native();
    const verifier: ImageVerifier = {
      pagesCheck: (siblings, index) => new addon.PagesCheck(index, siblings),
      siblingCheck: () => new addon.SiblingCheck(),
      stateHead: (head, bytes) => addon.checkStateHead(head, bytes),
      renderStateHead: (head, bytes) => addon.checkRenderStateHead(head, bytes),
      stateFacts: (bytes) => addon.stateFacts(bytes),
      renderStateFacts: (bytes) => addon.renderStateFacts(bytes),
    };
    return verifier;
  },
  listPages: (path) => {
    try {
      return native().listPages(path);
    } catch (error) {
      throw fromNative(error, path);
    }
  },
  zstdDecoder: () => Duplex.from(decode) as Transform,
  imageFlattener: () => {
    const frames = new (native().ImageFrames)();
    return async (chain, target, signal) => {
      const job = native().flattenPages(chain, target, isAlone(chain) ? undefined : frames);
      return await ended(job, chain[0]?.path ?? target, signal);
    };
  },
  storeMaker: (signal) => ({
    uses: (files, stores) => ended(native().storeUses(files, stores), 'contents', signal),
    write: (files, stores, order) =>
      ended(native().writeStores(files, stores, order), 'contents', signal),
  }),
  unpackContents: (fd, folder, limits) =>
    ended(native().receiveContents(fd, folder, limits), folder, undefined),
  sendFile: (fd) => ofArchive(() => native().sendFile(fd)),
  receiveFile: (pipe, file, limit) =>
    ended(native().receiveFile(pipe, file, limit), 'archive', undefined),
  forwardFile: (pipe, limit) => ofArchive(() => native().forwardFile(pipe, limit)),
  kfdVersion: () => {
    const addon = native();
    try {
      const { major, minor } = addon.kfdVersion();
      return `${major}.${minor}`;
    } catch (error) {
      throw fromNative(error, '/dev/kfd');
    }
  },
  xsaveBytes: () => native().xsaveBytes(),
  kfdRestoreTakes: (queue) => {
    const addon = native();
    try {
      return addon.kfdRestoreTakes(queue);
    } catch (error) {
      throw fromNative(error, 'queue probe');
    }
  },
  tryCopies: async (options, signal) =>
    ended(native().tryCopies(options), options.renderNode, signal),
  tryPauses: async (pid, times) =>
    native()
      .tryPauses(pid, times, betweenPausesUs)
      .catch((error: unknown) => {
        throw fromNative(error, 'pause');
      }),
};

/** Waits for a job. `signal` cancels it. Its errors become ours, with `subject` in front. */
function ofArchive<Job extends { readonly done: Promise<number>; cancel(): void }>(
  begin: () => Job,
): Job {
  try {
    const job = begin();
    return { ...job, done: ended(job, 'archive', undefined) };
  } catch (error) {
    throw fromNative(error, 'archive');
  }
}

async function ended<Result>(
  job: { readonly done: Promise<Result>; cancel(): void },
  subject: string,
  signal: AbortSignal | undefined,
): Promise<Result> {
  const cancel = () => job.cancel();
  signal?.addEventListener('abort', cancel, { once: true });
  if (signal?.aborted) cancel();
  try {
    return await job.done;
  } catch (error) {
    throw fromNative(error, subject);
  } finally {
    signal?.removeEventListener('abort', cancel);
  }
}

/** A single file without siblings. It needs no feature for references to other files. */
function isAlone([file]: readonly ChainPart[]): boolean {
  return file === undefined || file.siblings.length < 2;
}

async function* decode(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const decoder = new (native().ZstdDecoder)();
  const pieces: Buffer[] = [];
  let step: number = inputBytes.usual;
  try {
    for await (const chunk of source) {
      for (let at = 0; at < chunk.length; ) {
        const input = chunk.subarray(at, at + step);
        decoder.push(input, (piece) => pieces.push(piece));
        at += input.length;
        const made = pieces.reduce((sum, piece) => sum + piece.length, 0);
        step = made > growth * input.length ? inputBytes.growing : inputBytes.usual;
        yield* pieces;
        pieces.length = 0;
      }
    }
    decoder.end();
  } catch (error) {
    throw fromNative(error, 'archive');
  }
}
