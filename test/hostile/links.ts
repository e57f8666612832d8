/** Links and special files, in archives, in folders, and as the checkpoint itself. */

import { execFileSync } from 'node:child_process';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ErrorCode } from '../../src/errors.js';
import { unpackTo } from '../unit/archive-builder.js';
import type { RawEntry } from '../unit/raw-tar.js';
import { hostileArchive, type ReadingVerb, readingArgs } from './forms.js';
import { soundFiles, written } from './sound.js';
import type { HostileInput } from './suite.js';

const misplaced = /where a file of the checkpoint belongs|not a plain file/;

/** Entries of an archive where only files belong; nothing else has their names. */
const entries: HostileInput[] = (
  [
    ['a symbolic link in the image', { name: 'checkpoint/core-7.img', type: '2' }],
    ['a hard link in the image', { name: 'checkpoint/core-7.img', type: '1' }],
    ['a device in the image', { name: 'checkpoint/core-7.img', type: '3' }],
    ['a FIFO in the image', { name: 'checkpoint/core-7.img', type: '6' }],
    ['a folder with the name of a state file', { name: 'checkpoint/kfd-state-7.img', type: '5' }],
    [
      'a link with the name of a pages file',
      { name: 'checkpoint/amdgpu-pages-0-0000.img', type: '2' },
    ],
    ['a device with the name of a parent', { name: 'checkpoint/parent/x', type: '3' }],
  ] as const
).flatMap(([name, entry]) =>
  (['check', 'restore', 'verify'] as const).map((verb, i) =>
    hostileArchive(
      { name, says: misplaced, make: (sound: RawEntry[]) => [...sound, entry] },
      (['plain', 'gzip', 'zstd'] as const)[i] ?? 'plain',
      verb,
    ),
  ),
);

interface Rest {
  readonly status?: number;
  readonly code?: ErrorCode;
  readonly says?: RegExp;
}

/** A podman bundle in `dir`, changed. */
function bundle(
  name: string,
  verb: ReadingVerb,
  change: (folder: string) => Promise<unknown> | unknown,
  { status = 5, code = 'E_IMAGE_CORRUPT', says }: Rest,
): HostileInput {
  return {
    name,
    verb,
    status,
    ...(status !== 0 && { code }),
    ...(says && { says }),
    args: async (dir) => {
      const folder = join(dir, 'bundle');
      await unpackTo(folder, await soundFiles());
      await change(folder);
      return readingArgs(verb, dir, folder);
    },
  };
}

/** Puts something else in place of a file of the bundle. */
const instead =
  (file: string, make: (path: string) => Promise<unknown> | unknown) => async (folder: string) => {
    const path = join(folder, file);
    await rm(path, { recursive: true, force: true });
    await make(path);
  };
const link = (to: string) => (path: string) => symlink(to, path);
const fifo = (path: string) => execFileSync('mkfifo', [path]);
const socket = (path: string) =>
  execFileSync('python3', [
    '-c',
    'import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])',
    path,
  ]);
const manifest = 'checkpoint/kfd-manifest.json';
const state = 'checkpoint/kfd-state-0.img';

const folders: HostileInput[] = [
  ...(['verify', 'check'] as const).flatMap((verb) => {
    // Without a manifest the state is that of a checkpoint that did not end; check has the link before it.
    const code = verb === 'verify' ? 'E_IMAGE_UNSEALED' : 'E_IMAGE_CORRUPT';
    const manifests = {
      'links to a file': link('/etc/passwd'),
      'links to nothing': link('none'),
      'links to itself': link('kfd-manifest.json'),
      'is a FIFO': fifo,
      'is a folder': (path: string) => mkdir(path),
      'is a socket': socket,
    };
    const others = {
      'a state file that links to an endless device': instead(state, link('/dev/zero')),
      'a state file that is a FIFO': instead(state, fifo),
      'a spec that links to an endless device': instead('spec.dump', link('/dev/zero')),
    };
    return [
      ...Object.entries(manifests).map(([what, make]) =>
        bundle(`a manifest that ${what}`, verb, instead(manifest, make), { says: misplaced, code }),
      ),
      ...Object.entries(others).map(([what, change]) =>
        bundle(what, verb, change, { says: misplaced }),
      ),
    ];
  }),
  bundle(
    'an inventory that links to another',
    'inspect',
    async (folder) => {
      await rename(join(folder, 'checkpoint/inventory.img'), join(folder, 'other'));
      await symlink('../other', join(folder, 'checkpoint/inventory.img'));
    },
    { says: /not a checkpoint/ },
  ),
  bundle(
    'an image folder that is a link',
    'inspect',
    async (folder) => {
      await rename(join(folder, 'checkpoint'), join(folder, 'other'));
      await symlink('other', join(folder, 'checkpoint'));
    },
    { says: /neither an image directory nor a bundle/ },
  ),
  bundle(
    '70,000 files',
    'check',
    (folder) => execFileSync('sh', ['-c', `cd ${folder}/checkpoint && seq 70000 | xargs touch`]),
    { says: /more files than any checkpoint/ },
  ),
  bundle(
    'a spec of a sparse TiB',
    'inspect',
    (folder) => execFileSync('truncate', ['-s', '1T', join(folder, 'spec.dump')]),
    { says: /spec\.dump: larger than/ },
  ),
  bundle(
    'a manifest of a sparse TiB',
    'verify',
    (folder) => execFileSync('truncate', ['-s', '1T', join(folder, manifest)]),
    { says: /larger than/ },
  ),
  bundle(
    'a link to the image of a pre-dump',
    'check',
    (folder) => symlink('/etc', join(folder, 'checkpoint/parent')),
    { status: 0 },
  ),
];

/** The checkpoint itself is no checkpoint. */
function named(
  name: string,
  verb: ReadingVerb,
  make: (path: string) => Promise<unknown> | unknown,
  rest: Rest,
): HostileInput {
  return {
    name,
    verb,
    status: rest.status ?? 5,
    code: rest.code ?? 'E_IMAGE_CORRUPT',
    ...(rest.says && { says: rest.says }),
    args: async (dir) => {
      const path = join(dir, 'job.tar');
      await make(path);
      return readingArgs(verb, dir, path);
    },
  };
}

const places: HostileInput[] = [
  ...(['inspect', 'verify', 'check', 'restore', 'flatten', 'checkpoint'] as const).flatMap(
    (verb) => [
      named('a FIFO', verb, fifo, { says: /neither a file nor a directory/ }),
      named('a socket', verb, socket, { says: /neither a file nor a directory/ }),
      named('a link to an endless device', verb, link('/dev/zero'), {
        says: /neither a file nor a directory/,
      }),
    ],
  ),
  named('a link to itself', 'inspect', link('job.tar'), { status: 1, code: 'E_IO', says: /ELOOP/ }),
  named('a folder without a checkpoint', 'verify', (path) => mkdir(path), {
    says: /neither an image directory/,
  }),
  named('an empty file', 'inspect', (path) => writeFile(path, ''), { says: /not a tar archive/ }),
  named('a file of text', 'check', (path) => writeFile(path, 'x'.repeat(5000)), {
    says: /not a tar archive/,
  }),
  named(
    'an archive below a file',
    'inspect',
    async (path) => {
      await written(path.replace(/\/job\.tar$/, ''), 'other', 'x');
      await symlink('other/x', path);
    },
    { status: 4, code: 'E_NOT_FOUND' },
  ),
];

export const links: readonly HostileInput[] = [...entries, ...folders, ...places];
