import { readFileSync } from 'node:fs';

/** State of a process by proc(5); undefined when there is none. */
function stateOf(pid: number): string | undefined {
  try {
    return /^State:\s*(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  } catch {
    return undefined; // it may end at any moment
  }
}

/** Whether the process is there and has not ended. */
export const lives = (pid: number) => ![undefined, 'Z', 'X'].includes(stateOf(pid));
