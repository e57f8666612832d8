/** Restored buffers, for importers and holders of dma-bufs that wait for them. */

import { KfdError } from '../../errors.js';
import type { Manifest, ManifestBuffer } from '../../manifest/schema.js';
import type { Descriptor } from '../../native.js';
import { type BoPlace, placeKey } from '../buffers/places.js';
import { type Deferred, deferred } from '../deferred.js';
import { withDeadline } from './deadline.js';
import type { Returning } from './returning.js';

export class MadeBuffers {
  /** By id. */
  readonly #buffers: ReadonlyMap<number, ManifestBuffer>;
  readonly #returning: ReadonlyMap<number, Returning>;
  readonly #seconds: number;
  /** By place. */
  readonly #awaited = new Map<string, Deferred>();

  /** `seconds`: see withDeadline(). */
  constructor(manifest: Manifest, returning: ReadonlyMap<number, Returning>, seconds: number) {
    this.#buffers = new Map(manifest.buffers.map((buffer) => [buffer.id, buffer]));
    this.#returning = returning;
    this.#seconds = seconds;
  }

  /** From now on the process of `place` has the BO's dma-buf. */
  made(place: BoPlace): void {
    this.#awaited.get(placeKey(place))?.resolve();
  }

  /** The buffer `id`, once its process has made it. Throws E_PROTOCOL, E_TIMEOUT. */
  async wait(id: number): Promise<{ dmabuf: Descriptor; gpu: number }> {
    const buffer = this.#buffers.get(id);
    const owner = this.#returning.get(buffer?.process ?? -1);
    if (buffer === undefined || owner === undefined) throw protocol(`there is no buffer ${id}`);
    if (!owner.dmabufs.has(buffer.bo_index)) await this.#come(buffer);
    const dmabuf = owner.dmabufs.get(buffer.bo_index);
    if (dmabuf === undefined) throw protocol(`buffer ${id} came back without a dma-buf`);
    return { dmabuf, gpu: buffer.gpu };
  }

  /** Without a deadline the others would wait for ever for a process that fails. */
  async #come(buffer: ManifestBuffer): Promise<void> {
    const awaited = this.#awaited.get(placeKey(buffer)) ?? deferred();
    this.#awaited.set(placeKey(buffer), awaited);
    const what = `BO ${buffer.bo_index} of process ${buffer.process}, which others share: not made`;
    await withDeadline(this.#seconds, what, awaited.promise);
  }
}

function protocol(reason: string): KfdError {
  return new KfdError('E_PROTOCOL', `restore: ${reason}`);
}
