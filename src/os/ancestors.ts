/** Processes by pid and start time, and their parents. No two processes ever have both in common. */

import { readdirSync, readFileSync } from 'node:fs';
import { isMissing } from '../errors.js';

/** A process at the moment of a look. */
export interface ProcessStat {
  readonly pid: number;
  /** When it began, in clock ticks since boot. */
  readonly start: string;
  readonly parent: number;
  /** One letter of proc(5). */
  readonly state: string;
}

/** From /proc/PID/stat (proc(5)). Throws Node's error when there is no such process: ENOENT, or ESRCH. */
function statOf(pid: number): ProcessStat {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // Field 2 is the command's name in parentheses, and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { pid, start: fields[19] ?? '', parent: Number(fields[1]), state: fields[0] ?? '' };
}

/** All processes of this pid namespace, as far as they live long enough to be looked at. */
export function processStats(): ProcessStat[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      return [statOf(Number(name))];
    } catch (error) {
      if (isGone(error)) return [];
      throw error;
    }
  });
}

function isGone(error: unknown): boolean {
  return isMissing(error) || (error instanceof Error && 'code' in error && error.code === 'ESRCH');
}

/**
 * When a process began, in clock ticks since boot. A pid alone may belong to another process by now. Throws Node's
 * error when there is none.
 */
export function startTime(pid: number): string {
  return statOf(pid).start;
}

/** "PID-START" of a process. Throws Node's error when there is none. */
export function processName(pid: number): string {
  return `${pid}-${startTime(pid)}`;
}

/** undefined when there is no such process. */
export function processNameIfAny(pid: number): string | undefined {
  try {
    return processName(pid);
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

/** The names of a process and of its visible ancestors. */
export function lineage(pid: number): string[] {
  const names: string[] = [];
  try {
    for (let at = pid; at > 0; ) {
      const { start, parent } = statOf(at);
      names.push(`${at}-${start}`);
      at = parent;
    }
  } catch (error) {
    if (!isGone(error)) throw error;
  }
  return names;
}
