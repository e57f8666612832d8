/** The program `kfd-checkpoint`. */

import { isatty } from 'node:tty';
import { fileURLToPath } from 'node:url';
import { KfdError } from '../errors.js';
import { run, runThrough } from '../os/exec.js';
import { readTextIfAny } from '../os/files.js';
import { whyNotHostRoot } from '../os/host-root.js';
import { exitCodeOf, failureReport } from './failure.js';
import { nativeServices } from './native-services.js';
import { outputTo } from './output.js';
import { runCommandLine } from './program.js';
import { questionsOn } from './question.js';

const args = process.argv.slice(2);
const interrupted = new AbortController();
let signalNumber = 0;
let hasEnded = false;
// Node.js ends when nothing is left to wait for. A verb that waits for nothing has not succeeded.
process.exitCode = 1;
process.on('exit', () => {
  if (!hasEnded) {
    const lost = new KfdError('E_INTERNAL', 'kfd-checkpoint: ended without a result');
    err(failureReport(lost, args));
  }
});
for (const [name, number] of [
  ['SIGHUP', 1],
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const) {
  process.once(name, () => {
    signalNumber = number;
    interrupted.abort();
  });
}

const output = outputTo(process.stdout);
// A failure of standard error cannot be reported. Without a listener the error would end the program.
process.stderr.on('error', () => undefined);
const err = (text: string) => void process.stderr.write(text);

async function whyNotRoot(): Promise<string | undefined> {
  return whyNotHostRoot(
    process.geteuid?.() ?? 0,
    (await readTextIfAny('/proc/self/uid_map')) ?? '',
  );
}

async function main(): Promise<number> {
  const status = await runCommandLine(args, {
    out: output.write,
    err,
    isTerminal: process.stderr.isTTY,
    columns: () => process.stderr.columns,
    run,
    runThrough,
    prefix: fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, ''),
    native: nativeServices,
    whyNotRoot,
    signal: interrupted.signal,
    ask: questionsOn(isatty(0), () => process.stdin, err, interrupted.signal),
  });
  const failure = await output.finished();
  if (failure === undefined) return status;
  err(failureReport(failure, args));
  // A verb that failed has the more important reason.
  return status === 0 ? exitCodeOf(failure) : status;
}

void main().then((status) => {
  hasEnded = true;
  // What was finished before the signal came is a success.
  process.exitCode = signalNumber === 0 || status === 0 ? status : 128 + signalNumber;
  // An interrupted verb can leave work that nobody waits for any more.
  if (signalNumber !== 0) process.exit();
});
