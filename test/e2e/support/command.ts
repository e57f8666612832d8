/** Running programs in the guest. */

import { type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';

export interface Outcome {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const limitMs = 240_000;

function outcome(result: SpawnSyncReturns<string>): Outcome {
  if (result.error !== undefined) throw result.error;
  return { status: result.status, stdout: result.stdout.trim(), stderr: result.stderr.trim() };
}

/** Runs to the end, whatever its status. Throws when it cannot be started or takes too long. */
export function attempt(program: string, ...args: string[]): Outcome {
  return outcome(
    spawnSync(program, args, { encoding: 'utf8', timeout: limitMs, maxBuffer: 64 << 20 }),
  );
}

/** Runs to the end and must succeed; returns its standard output. */
export function run(program: string, ...args: string[]): string {
  const result = attempt(program, ...args);
  if (result.status !== 0) {
    throw new Error(`${program} ${args.join(' ')}: status ${result.status}\n${result.stderr}`);
  }
  return result.stdout;
}

/** Starts in the background; the promise settles when it ends. */
export function begin(program: string, ...args: string[]): Promise<Outcome> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status) =>
      resolve({ status, stdout: stdout.trim(), stderr: stderr.trim() }),
    );
  });
}

/** Polls `probe` until it returns something; throws naming `what` after `seconds`. */
export async function until<T>(
  what: string,
  probe: () => T | undefined | false,
  seconds = 90,
): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const value = probe();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > deadline) throw new Error(`${what}: not within ${seconds} s`);
    await delay(50);
  }
}
