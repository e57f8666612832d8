/** The last resort against GPU processes that would hang for ever. */

import type { Logger } from '../../log.js';
import { native } from '../../native.js';
import type { DumpedProcess } from './process.js';

/**
 * CRIU died, or left tasks alive that the plugin expected to die: their GPU must not hang. Logging comes after all are
 * unpaused.
 */
export function unpauseSurvivors(processes: readonly DumpedProcess[], log: Logger): void {
  const { isAlive, kfdUnpause } = native();
  const reports = processes.flatMap(({ kfd, pid, pidfd }) => {
    if (kfd === undefined || !isAlive(pidfd)) return [];
    try {
      const paused = kfdUnpause(pid, kfd);
      return [() => log.warn({ pid, paused }, 'unpaused a process CRIU left behind')];
    } catch (err) {
      if (!isAlive(pidfd)) return [];
      return [() => log.error({ err, pid }, 'a GPU process stays paused')];
    }
  });
  for (const report of reports) report();
}
