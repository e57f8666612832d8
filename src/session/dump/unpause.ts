/** The last resort against GPU processes that would hang for ever. */

import type { Logger } from '../../log.js';
import { native } from '../../native.js';
import type { DumpedProcess } from './process.js';

/** CRIU died, or left tasks alive that the plugin took for dying: their GPU must not hang. */
export function unpauseSurvivors(processes: readonly DumpedProcess[], log: Logger): void {
  for (const { kfd, pid, pidfd } of processes) {
    if (kfd === undefined || !native().isAlive(pidfd)) continue;
    try {
      const paused = native().kfdUnpause(pid, kfd);
      log.warn({ pid, paused }, 'unpaused a process CRIU left behind');
    } catch (error) {
      if (native().isAlive(pidfd)) {
        log.error({ err: error, pid }, 'a GPU process stays paused');
      }
    }
  }
}
