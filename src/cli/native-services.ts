/** The functions of the addon for the command line. */

import { Duplex, type Transform } from 'node:stream';
import type { ChainPart } from '../addon.js';
import type { ImageVerifier } from '../archive/verifier.js';
import { fromNative, native } from '../native.js';
import type { NativeServices } from './context.js';

/**
 * Bytes that the zstd decoder gets at once. 4 bytes can decode to 128 KiB. So a hostile stream makes at
 * most 128 MiB before the reader can stop it.
 */
const inputBytes = 4096;

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
  zstdDecoder: () => Duplex.from(decode) as Transform,
  imageFlattener: () => {
    const frames = new (native().ImageFrames)();
    return async (chain, target, signal) => {
      const job = native().flattenPages(chain, target, isAlone(chain) ? undefined : frames);
      const cancel = () => job.cancel();
      signal?.addEventListener('abort', cancel, { once: true });
      try {
        return await job.done;
      } catch (error) {
        throw fromNative(error, chain[0]?.path ?? target);
      } finally {
        signal?.removeEventListener('abort', cancel);
      }
    };
  },
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
};

/** A single file without siblings. It needs no feature for references to other files. */
function isAlone([file]: readonly ChainPart[]): boolean {
  return file === undefined || file.siblings.length < 2;
}

async function* decode(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const decoder = new (native().ZstdDecoder)();
  const pieces: Buffer[] = [];
  try {
    for await (const chunk of source) {
      for (let at = 0; at < chunk.length; at += inputBytes) {
        decoder.push(chunk.subarray(at, at + inputBytes), (piece) => pieces.push(piece));
        yield* pieces;
        pieces.length = 0;
      }
    }
    decoder.end();
  } catch (error) {
    throw fromNative(error, 'archive');
  }
}
