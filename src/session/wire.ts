/** The numbers of native/core/wire.h: what the plugin and the launcher say to a session. */

export const messageType = {
  ok: 1,
  error: 2,
  stage: 10,
  dumpRefused: 20,
  dumpPause: 21,
  dumpBuffers: 22,
  dumpBegin: 23,
  dumpFile: 24,
  dumpEnd: 25,
  dumpState: 26,
  dumpUnpaused: 27,
  openFile: 30,
  restoreBuffers: 31,
  restored: 32,
  renderFile: 33,
  vmasMapped: 34,
  restoreFailed: 35,
} as const;

export const fileKind = { none: 0, kfd: 1, render: 2 } as const;

/** The BO indices in the body of a *Buffers message. */
export function boIndices(body: Buffer): number[] {
  const indices: number[] = [];
  for (let at = 0; at + 4 <= body.length; at += 4) indices.push(body.readUInt32LE(at));
  return indices;
}
