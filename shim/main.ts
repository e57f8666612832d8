/**
 * The long-lived process of the shim, started by shim/containerd-shim-kfd-v2 with the container's id as its argument, the bundle
 * as working directory, and
 *
 *   0  what the stock shim answers to `start`
 *   1  to that script: "ok", or why not
 *   4  to containerd: our answer
 *
 * It keeps none of them.
 */

import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { serve } from './bootstrap/serve.js';
import { helper } from './intercept/helper.js';
import { Interceptor } from './intercept/interceptor.js';

const answerFd = 4;

/** Containerd and the script wait until nobody holds their pipes. */
function letGo(): void {
  closeSync(answerFd);
  for (const fd of [0, 1]) {
    closeSync(fd);
    openSync('/dev/null', 'r+'); // gets the number that has become free
  }
}

function report(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`${new Date().toISOString()} shim ${process.pid}: ${text}\n`);
}

// The end of this process is the end of its containers: they live on whatever else goes wrong.
process.on('uncaughtException', report);
process.on('unhandledRejection', report);
// It ends when the stock shim does, which gets the same signals and knows what to do about them.
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined);

async function main([id = '']: readonly string[]): Promise<void> {
  const interceptor = new Interceptor(helper, report);
  try {
    const { answer, serving } = await serve(readFileSync(0), id, (call, child) =>
      interceptor.intercept(call, child),
    );
    writeSync(answerFd, answer);
    writeSync(1, 'ok');
    letGo();
    process.chdir('/'); // the bundle goes away with the first container, others may live on
    await serving?.ended;
    process.exit(0);
  } catch (error) {
    writeSync(1, error instanceof Error ? error.message : String(error));
    process.exit(1);
  }
}

void main(process.argv.slice(2));
