/**
 * Runs dist/shim/task/main.js in a process of its own, for work that needs more than some fields of a
 * message. Codec, pre-flight and addon would double the memory of the long-lived process, and their
 * failures must not end it.
 */

import { fileURLToPath } from 'node:url';

/** Longest time for one task after it has its input, milliseconds. */
const limitMs = 120_000;
/** Longest answer, bytes. */
const answerBytes = 1 << 20;

/**
 * Runs the task `args` and resolves with its answer. The process starts at once and then waits for its
 * input. Rejects when the task fails or takes too long. `signal` ends the process.
 */
export type Helper = (
  args: readonly string[],
  input: Buffer | Promise<Buffer>,
  signal?: AbortSignal,
) => Promise<Buffer>;

const program = fileURLToPath(new URL('../task/main.js', import.meta.url));

export const helper: Helper = async (args, input, signal) => {
  // Loaded on demand, because most containers are never checkpointed.
  const { execFile } = await import('node:child_process');
  return new Promise((resolve, reject) => {
    const settings = { maxBuffer: answerBytes, encoding: 'buffer' as const, signal };
    let timer: NodeJS.Timeout | undefined;
    const child = execFile(process.execPath, [program, ...args], settings, (error, stdout) => {
      clearTimeout(timer);
      if (error === null) resolve(stdout);
      else reject(error);
    });
    child.stdin?.on('error', () => undefined); // its exit status says more
    void Promise.resolve(input).then((bytes) => {
      timer = setTimeout(() => void child.kill('SIGKILL'), limitMs);
      child.stdin?.end(bytes);
    });
  });
};
