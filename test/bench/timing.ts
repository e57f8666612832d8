/** Timed podman commands. */

import { attempt } from '../e2e/support/command.js';

/** Seconds the command took; it must succeed. */
export async function seconds(program: string, ...args: string[]): Promise<number> {
  const began = performance.now();
  const result = await attempt(program, ...args);
  const took = (performance.now() - began) / 1000;
  if (result.status !== 0) throw new Error(`${program} ${args.join(' ')}: ${result.stderr}`);
  return took;
}
