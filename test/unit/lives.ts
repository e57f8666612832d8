import { existsSync, readFileSync } from 'node:fs';

/** State of a process by proc(5); undefined when there is none. */
function stateOf(pid: number): string | undefined {
  if (!existsSync(`/proc/${pid}`)) return undefined;
  return /^State:\s*(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
}

/** Whether the process is there and has not ended. */
export const lives = (pid: number) => ![undefined, 'Z', 'X'].includes(stateOf(pid));
