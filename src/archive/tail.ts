/** The end of a streamed archive: for tar-stream an archive that was cut between two entries is complete. */

import { Transform, type TransformCallback } from 'node:stream';
import type { Header } from 'tar-stream';
import { KfdError } from '../errors.js';
import { blockBytes, padded } from './tar-header.js';

/** Two zero blocks end an archive. */
const endMarkerBytes = 2 * blockBytes;

/** The hint for an archive with wrong bytes. */
export const damaged = 'the archive is damaged or incomplete; use another copy';

/** Passes everything through. It remembers the number of bytes, and whether the last bytes were zeros. */
export class Tail extends Transform {
  #bytes = 0;
  #last: Buffer = Buffer.alloc(0);
  #endOfEntries = 0;

  override _transform(chunk: Buffer, _encoding: string, callback: TransformCallback): void {
    this.#bytes += chunk.length;
    this.#last =
      chunk.length >= endMarkerBytes
        ? chunk.subarray(-endMarkerBytes)
        : Buffer.concat([this.#last, chunk]).subarray(-endMarkerBytes);
    callback(null, chunk);
  }

  /** An entry whose header lies at `offset`. */
  entryAt(offset: number, { type, size }: Header): void {
    this.#endOfEntries = offset + blockBytes + (type === 'directory' ? 0 : padded(size));
  }

  /** After the last byte. Throws E_IMAGE_CORRUPT when the end marker is not behind the last entry. */
  assertWhole(path: string): void {
    const endsInZeros =
      this.#last.length === endMarkerBytes && this.#last.every((byte) => byte === 0);
    if (endsInZeros && this.#bytes >= this.#endOfEntries + endMarkerBytes) return;
    throw new KfdError('E_IMAGE_CORRUPT', `${path}: the end is missing`, { hint: damaged });
  }
}
