/**
 * What needs more than a look into a message is done by a process of its own, dist/shim/task/main.js: codec, pre-flight and
 * addon would double the memory that the long-lived process keeps to itself, and their failures are not its own.
 */

import { fileURLToPath } from 'node:url';

/** Longest time for one task, milliseconds from its input on. */
const limitMs = 120_000;
/** Most that is read of an answer, bytes. */
const answerBytes = 1 << 20;

/**
 * Runs the task `args`, which gets ready while its input is awaited; what it answers. Rejects when it fails, or takes too
 * long.
 */
export type Helper = (args: readonly string[], input: Buffer | Promise<Buffer>) => Promise<Buffer>;

const program = fileURLToPath(new URL('../task/main.js', import.meta.url));

export const helper: Helper = async (args, input) => {
  // Not loaded before it is needed: most containers never are checkpointed.
  const { execFile } = await import('node:child_process');
  return new Promise((resolve, reject) => {
    const settings = { maxBuffer: answerBytes, encoding: 'buffer' as const };
    let timer: NodeJS.Timeout | undefined;
    const child = execFile(process.execPath, [program, ...args], settings, (error, stdout) => {
      clearTimeout(timer);
      if (error === null) resolve(stdout);
      else reject(error);
    });
    child.stdin?.on('error', () => undefined); // how it ended says more
    void Promise.resolve(input).then((bytes) => {
      timer = setTimeout(() => void child.kill('SIGKILL'), limitMs);
      child.stdin?.end(bytes);
    });
  });
};
