/** Sound inputs in a hostile environment: standard streams, folders, programs, signals. */

import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ReadingVerb, readingArgs } from './forms.js';
import { archiveOf, soundFiles } from './sound.js';
import type { HostileInput } from './suite.js';

/** The sound archive, read by `verb`. `restore` has numbers to change, so it writes a copy. */
function sound(verb: ReadingVerb, name: string, rest: Partial<HostileInput>): HostileInput {
  return {
    name,
    verb,
    args: async (dir) => readingArgs(verb, dir, await archiveOf(dir, await soundFiles())),
    status: 0,
    ...rest,
  };
}

/** The same with further options of podman or ours behind the archive. */
function withOptions(input: HostileInput, ...options: readonly string[]): HostileInput {
  return { ...input, args: async (dir) => [...(await input.args(dir)), ...options] };
}

const reading = ['inspect', 'verify', 'check'] as const;
const restored: Partial<HostileInput> = { podman: true, says: /234:0 becomes 511:0/ };

const streams: HostileInput[] = [
  ...reading.flatMap((verb) => [
    sound(verb, 'standard output is full', {
      streams: '>/dev/full',
      status: 1,
      code: 'E_IO',
      says: /ENOSPC/,
    }),
    sound(verb, 'standard output is closed by its reader', { streams: '> >(:)' }),
    sound(verb, 'standard error is full', { streams: '2>/dev/full' }),
    sound(verb, 'all standard streams are closed', { streams: '<&- >&- 2>&-' }),
  ]),
  sound('restore', 'standard error is full', { streams: '2>/dev/full', podman: true }),
  sound('restore', 'standard error is closed', { streams: '2>&-', podman: true }),
  sound('restore', 'standard error is closed by its reader', { streams: '2> >(:)', podman: true }),
  sound('flatten', 'standard error is full', {
    streams: '2>/dev/full',
    status: 2,
    code: 'E_USAGE',
  }),
  withOptions(
    sound('verify', 'a failure with full standard output keeps its status', {
      streams: '>/dev/full',
      status: 2,
      code: 'E_USAGE',
    }),
    '--no-such-option',
  ),
];

const temporary: HostileInput[] = [
  sound('restore', 'an empty $TMPDIR', { env: { TMPDIR: '' }, ...restored }),
  sound('restore', 'no $TMPDIR', { env: { TMPDIR: undefined }, ...restored }),
  ...Object.entries({
    'a $TMPDIR that does not exist': '/none/at/all',
    'a $TMPDIR that is a file': '/etc/hostname',
    'a $TMPDIR that cannot be written': '/proc',
  }).map(([name, TMPDIR]) =>
    sound('restore', name, {
      env: { TMPDIR },
      status: 1,
      code: 'E_IO',
      says: /set TMPDIR to a folder with room/,
    }),
  ),
];

/** Where `flatten` is to write. It does not come to write anything, because the archive has no parent. */
const outputs: HostileInput[] = [
  ['a file that exists', async (path: string) => writeFile(path, 'kept')],
  ['a folder', async (path: string) => mkdir(path)],
  ['a link to nothing', async (path: string) => symlink('none', path)],
  ['a link to a device', async (path: string) => symlink('/dev/full', path)],
].map(([name, make]) => ({
  name: `the output is ${name as string}`,
  verb: 'flatten',
  status: 1,
  code: 'E_IO' as const,
  says: /EEXIST/,
  args: async (dir) => {
    const path = await archiveOf(dir, await soundFiles());
    await (make as (path: string) => Promise<void>)(join(dir, 'flat.tar'));
    return [path, '-o', join(dir, 'flat.tar')];
  },
}));

const programs: HostileInput[] = [
  sound('restore', 'no podman', {
    env: { PATH: '' },
    status: 3,
    code: 'E_HOST',
    says: /podman: cannot be started/,
  }),
  sound('check', 'no $PATH', { env: { PATH: undefined } }),
  withOptions(
    sound('restore', '--import behind the archive', {
      status: 2,
      code: 'E_USAGE',
      says: /--import cannot be used/,
    }),
    '--import',
    '/etc/passwd',
  ),
  withOptions(
    sound('restore', '-i with its file in one word', {
      status: 2,
      code: 'E_USAGE',
      says: /--import cannot be used/,
    }),
    '-i/etc/passwd',
  ),
  withOptions(
    sound('restore', '-i behind another letter', {
      status: 2,
      code: 'E_USAGE',
      says: /--import cannot be used/,
    }),
    '-ki/etc/passwd',
  ),
];

const others: HostileInput[] = [
  { name: 'nothing to do', verb: 'version', args: () => [], status: 0 },
  {
    name: 'a file that does not exist',
    verb: 'inspect',
    args: (dir) => [`${dir}/none`],
    status: 4,
    code: 'E_NOT_FOUND',
  },
  {
    name: 'an unknown verb with control characters',
    verb: '\u001b[2J',
    args: () => [],
    status: 2,
    code: 'E_USAGE',
  },
  {
    name: 'a path with control characters',
    verb: 'verify',
    args: (dir) => [`${dir}/\u001b[2J\u009b\u202e`],
    status: 4,
    code: 'E_NOT_FOUND',
  },
  {
    name: 'a path of 5000 characters',
    verb: 'inspect',
    args: (dir) => [`${dir}/${'p'.repeat(5000)}`],
    status: 1,
    code: 'E_IO',
    says: /ENAMETOOLONG/,
  },
];

export const environment: readonly HostileInput[] = [
  sound('inspect', 'nothing is wrong', {}),
  sound('verify', 'nothing is wrong', { says: /kfd-state-0.* ok/ }),
  sound('check', 'nothing is wrong', { says: /would restore here by: kfd-checkpoint/ }),
  sound('restore', 'nothing is wrong', restored),
  ...streams,
  ...temporary,
  ...outputs,
  ...programs,
  ...others,
];
