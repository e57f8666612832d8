/** Timed podman commands. */

import { attempt } from '../e2e/support/command.js';

export interface Timed {
  readonly seconds: number;
  readonly stdout: string;
}

/** The command's time and what it printed; it must succeed. */
export async function timed(program: string, ...args: string[]): Promise<Timed> {
  const began = performance.now();
  const result = await attempt(program, ...args);
  const took = (performance.now() - began) / 1000;
  if (result.status !== 0) throw new Error(`${program} ${args.join(' ')}: ${result.stderr}`);
  return { seconds: took, stdout: result.stdout };
}

/** Seconds the command took; it must succeed. */
export async function seconds(program: string, ...args: string[]): Promise<number> {
  return (await timed(program, ...args)).seconds;
}
