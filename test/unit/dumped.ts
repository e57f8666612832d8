/** What a dump session knows of a process, and of the host. */

import type { Host } from '../../src/gpu/host.js';
import type { Descriptor, StateSummary } from '../../src/native.js';
import type { DumpedProcess } from '../../src/session/dump/process.js';

export const kfdVersion = '1.17';

const closed: Descriptor = { fd: -1, close() {} };

/** A process of two GPUs, with every kind of BO. */
export function dumped(summary: Partial<StateSummary> = {}): DumpedProcess {
  const bos = [
    { gpuId: 0x1234, size: 8192, kind: 'vram', allocFlags: 1 },
    { gpuId: 0x1234, size: 4096, kind: 'userptr', allocFlags: 4 },
    { gpuId: 0x5678, size: 16384, kind: 'vram', allocFlags: 1 },
    { gpuId: 0x1234, size: 4096, kind: 'gtt', allocFlags: 2 },
    { gpuId: 0x5678, size: 8192, kind: 'doorbell', allocFlags: 8 },
  ] as const;
  return {
    ordinal: 0,
    pid: 4711,
    comm: 'worker',
    kfd: closed,
    pidfd: closed,
    state: Buffer.from('state'),
    summary: {
      ordinal: 0,
      nsPid: 7,
      numObjects: 3,
      privBytes: 64,
      vmas: 2,
      // A process that was restored before knows its GPUs by their old ids.
      devices: [
        { userGpuId: 0x1234, actualGpuId: 51966, renderVmas: 0 },
        { userGpuId: 0x5678, actualGpuId: 47806, renderVmas: 0 },
      ],
      bos,
      ...summary,
    },
    renderFiles: [],
    dmabufs: new Map([0, 2, 3].map((index) => [index, closed])),
  };
}

export function manifestFacts(host: Host) {
  return {
    host,
    processes: [],
    extFiles: [],
    dmabufFiles: [],
    drained: [],
    shares: [],
    parent: undefined,
    detached: false,
    timings: {},
    nodes: new Set<number>(),
  };
}
