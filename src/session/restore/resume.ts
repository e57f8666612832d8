/** RESUME of the processes whose queues RESTORE has evicted. */

import { KfdError } from '../../errors.js';
import { native } from '../../native.js';
import type { SessionContext } from '../context.js';
import { type Evicted, readEvictions } from './evictions.js';
import type { RestoreImage } from './image.js';
import type { Returning } from './returning.js';

/** Of each process that needs RESUME. */
export async function evictedOf(
  image: RestoreImage | undefined,
  log: SessionContext['log'],
): Promise<Evicted[]> {
  const all: Evicted[] = [];
  for (const process of image?.processes.values() ?? []) {
    const { pid, prepared } = process;
    if (pid === undefined || !image?.hasKfdState(process)) continue;
    const gpus = prepared.summary.devices.map(
      ({ actualGpuId }) => image.pair(actualGpuId).present.record.gpu_id,
    );
    const evicted = await readEvictions(pid, gpus);
    const { unseen: reason } = evicted;
    if (reason) log.warn({ process: prepared.ordinal, reason }, 'RESUME is not checked');
    all.push(evicted);
  }
  return all;
}

/**
 * RESUME of each evicted process, while its task lives. Of any other process with that pid it can crash the kernel.
 * Throws KFD_GPU, E_GPU_IO.
 */
export function resumeAll(processes: Iterable<Returning>, evicted: readonly Evicted[]): void {
  const { isAlive, kfdResume } = native();
  const waiting = new Set(evicted.map(({ pid }) => pid));
  for (const { prepared, pid, pidfd } of processes) {
    if (pid === undefined || pidfd === undefined || !waiting.has(pid)) continue;
    if (!isAlive(pidfd)) {
      throw new KfdError('E_GPU_IO', `process ${prepared.ordinal}: ended before RESUME`);
    }
    kfdResume(pid);
  }
}
