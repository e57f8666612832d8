/** The message numbers of native/core/wire/wire.h. */

import { KfdError } from '../../errors.js';

export const messageType = {
  ok: 1,
  error: 2,
  working: 3,
  stage: 10,
  dumpRefused: 20,
  dumpPause: 21,
  dumpBuffers: 22,
  dumpBegin: 23,
  dumpFile: 24,
  dumpEnd: 25,
  dumpState: 26,
  dumpUnpaused: 27,
  dumpRender: 28,
  dumpDmabuf: 29,
  dumpResult: 40,
  dumpSurveyed: 41,
  openFile: 30,
  restoreBuffers: 31,
  restored: 32,
  renderFile: 33,
  vmasMapped: 34,
  restoreFailed: 35,
  renderOpened: 36,
  importBuffer: 37,
  renderState: 38,
  sharedBo: 39,
  restoreEnd: 42,
  spareWanted: 50,
  spareBegin: 51,
} as const;

export const fileKind = { none: 0, kfd: 1, render: 2, drm: 3, dmabuf: 4 } as const;

/**
 * The BO indices in the body of a *Buffers message with `count` dma-bufs. Throws E_PROTOCOL when the numbers differ.
 */
export function boIndices(body: Buffer, count: number): number[] {
  if (body.length !== count * 4) {
    throw new KfdError(
      'E_PROTOCOL',
      `plugin: ${count} dma-buf(s) with ${body.length} bytes of BO indices`,
    );
  }
  return Array.from({ length: count }, (_, i) => body.readUInt32LE(i * 4));
}
