/** Running programs in the guest. */

import { spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';

export interface Outcome {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Most of them take seconds. */
const limitS = 240;

/** Runs to the end, whatever its status. Throws when it cannot be started or takes too long. */
export function attempt(program: string, ...args: string[]): Promise<Outcome> {
  return attemptWithin(limitS, program, ...args);
}

/** As attempt(), with another limit. */
export function attemptWithin(
  seconds: number,
  program: string,
  ...args: string[]
): Promise<Outcome> {
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: seconds * 1000,
    killSignal: 'SIGKILL',
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status) => {
      if (child.killed) reject(new Error(`${program} ${args.join(' ')}: over ${seconds} s`));
      else resolve({ status, stdout: stdout.trim(), stderr: stderr.trim() });
    });
  });
}

/** Runs to the end and must succeed; returns its standard output. */
export async function run(program: string, ...args: string[]): Promise<string> {
  const result = await attempt(program, ...args);
  if (result.status !== 0) {
    throw new Error(`${program} ${args.join(' ')}: status ${result.status}\n${result.stderr}`);
  }
  return result.stdout;
}

/** Polls `probe`, every `stepMs`, until it returns something; throws naming `what` after `seconds`. */
export async function until<T>(
  what: string,
  probe: () => T | undefined | false | Promise<T | undefined | false>,
  seconds = 90,
  stepMs = 50,
): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const value = await probe();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > deadline) throw new Error(`${what}: not within ${seconds} s`);
    await delay(stepMs);
  }
}
