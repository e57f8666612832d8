/** This product as a program on one of two hosts, which the environment names: their files, and what is in PATH. */

import { exitCodeOf, failureOf, failureReport } from '../../src/cli/failure.js';
import { migrateCommand } from '../../src/cli/migrate.js';
import { hiddenProgram, hiddenVerbs } from '../../src/cli/migrate-hidden.js';
import { nativeServices } from '../../src/cli/native-services.js';
import { restoreCommand } from '../../src/cli/restore.js';
import { type Run, run, runThrough } from '../../src/os/exec.js';
import { programs } from './able-host.js';
import { fakeRun } from './cli-context.js';
import { services } from './drained-archive.js';

const args = process.argv.slice(2);
const self = [process.execPath, process.argv[1] ?? ''] as const;
/** Memory is a folder here. */
const others = fakeRun({ ...programs, 'mount -t': '' });
/** Contents on their way are real. */
const { unpackContents, sendFile, receiveFile, forwardFile } = nativeServices;
const interrupted = new AbortController();
process.once('SIGINT', () => interrupted.abort());

/** Only podman's containers and images are asked for. */
const someRun: Run = (command, words, options) =>
  command === 'podman' && /^(container|image)$/.test(words[0] ?? '')
    ? run(command, words, options)
    : others(command, words, options);

const context = {
  out: (text: string) => void process.stdout.write(text),
  err: (text: string) => void process.stderr.write(text),
  isTerminal: false,
  columns: () => 80,
  run: someRun,
  runThrough,
  prefix: '/usr/lib/kfd-checkpoint',
  native: { ...services, unpackContents, sendFile, receiveFile, forwardFile },
  whyNotRoot: async () => undefined,
  signal: interrupted.signal,
};

async function main(): Promise<number> {
  const [verb = '', ...rest] = args;
  const root = ['--root', process.env['MIGRATE_ROOT'] ?? '/nowhere'];
  // The other host's program has the same root for all of its verbs.
  const words = rest.includes('--root') ? rest : [...root, ...rest];
  try {
    if (hiddenVerbs.includes(verb)) {
      await hiddenProgram(context, self).parseAsync([verb, ...words], { from: 'user' });
    } else {
      const command = verb === 'migrate' ? migrateCommand(context, self) : restoreCommand(context);
      await command.exitOverride().parseAsync(words, { from: 'user' });
    }
    return 0;
  } catch (caught) {
    const failure = failureOf(caught);
    if (failure === undefined) return 0;
    context.err(failureReport(failure, args));
    return exitCodeOf(failure);
  }
}

void main().then((status) => {
  process.exitCode = status;
});
