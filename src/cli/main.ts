#!/usr/bin/env node
/** The program `kfd-checkpoint`. */

import { fileURLToPath } from 'node:url';
import { run, runThrough } from '../os/exec.js';
import { nativeServices } from './native-services.js';
import { runCommandLine } from './program.js';

const interrupted = new AbortController();
let signalNumber = 0;
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
// A reader that had enough ("| head") is no failure of ours.
process.stdout.on('error', () => process.exit(0));

const finished = runCommandLine(process.argv.slice(2), {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  isTerminal: process.stderr.isTTY,
  run,
  runThrough,
  prefix: fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, ''),
  native: nativeServices,
  signal: interrupted.signal,
});
void finished.then((code) => {
  process.exitCode = signalNumber === 0 ? code : 128 + signalNumber;
});
