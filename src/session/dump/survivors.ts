/** Whether the tree of a checkpoint runs on after CRIU's end. */

import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { native } from '../../native.js';
import type { DumpedProcess } from './process.js';

type Process = Pick<DumpedProcess, 'pid' | 'pidfd'>;

/** Flags of a task that ends: PF_EXITING and PF_SIGNALED of Linux's include/linux/sched.h. */
const ending = 0x4 | 0x400;
/** SIGKILL in the masks of /proc/PID/status. */
const sigkill = 1n << 8n;
/** A task between taking SIGKILL and beginning to end shows neither for a moment. */
const betweenMs = 50;

/**
 * True when a process lives and nothing ends it. A killed one may need seconds for its end, in which the driver frees
 * its memory. `proc`: the folder /proc.
 */
export async function anySurvives(
  processes: readonly Process[],
  proc: string = '/proc',
): Promise<boolean> {
  const first = await livingOf(processes, proc);
  if (first.length === 0) return false;
  await delay(betweenMs);
  return (await livingOf(first, proc)).length > 0;
}

async function livingOf(processes: readonly Process[], proc: string): Promise<Process[]> {
  const living = await Promise.all(processes.map((process) => lives(process, proc)));
  return processes.filter((_, i) => living[i]);
}

/** Asked last, the pidfd says that the pid still belongs to this process. */
async function lives({ pid, pidfd }: Process, proc: string): Promise<boolean> {
  const tasks = `${proc}/${pid}/task`;
  const ids = await readdir(tasks).catch(() => []);
  const states = await Promise.all(ids.map((id) => isTaskEnding(`${tasks}/${id}`)));
  return states.includes(false) && native().isAlive(pidfd);
}

async function isTaskEnding(folder: string): Promise<boolean> {
  try {
    const [stat, status] = await Promise.all([
      readFile(`${folder}/stat`, 'latin1'),
      readFile(`${folder}/status`, 'latin1'),
    ]);
    // Field 9 of proc(5). Field 2 is a name in parentheses, and may hold anything.
    const flags = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[6]);
    const pending = [...status.matchAll(/^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$/gm)];
    const killed = pending.some(([, mask]) => (BigInt(`0x${mask}`) & sigkill) !== 0n);
    return killed || (flags & ending) !== 0;
  } catch {
    return true; // it has ended
  }
}
