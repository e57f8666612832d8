/**
 * The long-lived process of the shim. shim/containerd-shim-kfd-v2 starts it, with the container's id as
 * argument, the bundle as working directory, and these descriptors:
 *
 *   0  the stock shim's answer to `start`
 *   1  for the script: "ok", or the error
 *   4  for containerd: our answer
 *
 * The process closes all three when it serves.
 */

import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { serve } from './bootstrap/serve.js';
import { helper } from './intercept/helper.js';
import { Interceptor } from './intercept/interceptor.js';

const answerFd = 4;

/** Containerd and the script wait until all writers have closed their pipes. */
function releasePipes(): void {
  closeSync(answerFd);
  for (const fd of [0, 1]) {
    closeSync(fd);
    openSync('/dev/null', 'r+'); // gets the number that is free now
  }
}

function report(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`${new Date().toISOString()} shim ${process.pid}: ${text}\n`);
}

// The end of this process would be the end of its containers, so no error ends it.
process.on('uncaughtException', report);
process.on('unhandledRejection', report);
// The stock shim gets the same signals and handles them. This process ends after it.
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined);

async function main([id = '']: readonly string[]): Promise<void> {
  const interceptor = new Interceptor(helper, report);
  try {
    const { answer, serving } = await serve(readFileSync(0), id, (call, upstream) =>
      interceptor.intercept(call, upstream),
    );
    writeSync(answerFd, answer);
    writeSync(1, 'ok');
    releasePipes();
    process.chdir('/'); // the bundle is removed with the first container, and others may live longer
    await serving?.ended;
    process.exit(0);
  } catch (error) {
    writeSync(1, error instanceof Error ? error.message : String(error));
    process.exit(1);
  }
}

void main(process.argv.slice(2));
