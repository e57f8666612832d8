/** Detached images and their folders of contents: for the verbs, and for the session's pre-flight. */

import { execFileSync } from 'node:child_process';
import { chmod, mkdir, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ErrorCode } from '../../src/errors.js';
import { buffers, content, names, type Parts, soundParts } from '../unit/forged-image.js';
import { pagesFile } from '../unit/forged-pages.js';
import { archiveOfParts, type BendFiles, bentDirectory } from './bent.js';
import { hostOptions } from './sound.js';
import type { HostileInput } from './suite.js';

interface Input {
  readonly name: string;
  readonly says: RegExp;
  readonly code?: ErrorCode;
  readonly status?: number;
  /** After all files are in the folder of contents. */
  readonly after?: (folder: string) => Promise<unknown>;
  /** A pages file stays in the image, too. */
  readonly isTwice?: boolean;
  /** The verbs do not see it, because they do not read frames or own folders. */
  readonly only?: 'preflight';
}

const isPages = (name: string) => /amdgpu-pages/.test(name);
const missing = { code: 'E_IMAGE_MISSING', status: 4 } as const;
const first = (folder: string) => join(folder, names.first);

const detach = (parts: Parts) => {
  parts.manifest.features = { required: ['detached'], optional: [] };
};

/** Takes the pages files out of the image. */
function without(isTwice: boolean): BendFiles {
  return (files) => {
    for (const name of Object.keys(files)) {
      const stays = isTwice && name.endsWith(names.second);
      if (isPages(name) && !stays) delete files[name];
    }
  };
}

async function folderOf(dir: string, { files }: Parts, after: Input['after']): Promise<string> {
  const folder = join(dir, 'contents');
  await mkdir(folder, { mode: 0o700 });
  for (const [name, bytes] of files) {
    if (isPages(name)) await writeFile(join(folder, name), bytes);
  }
  await after?.(folder);
  return folder;
}

const instead = (make: (path: string) => unknown) => async (folder: string) => {
  await rm(first(folder));
  await make(first(folder));
};

/** A sound file with other contents. */
const other = pagesFile({
  buffers: [{ id: 0, frames: [{ raw: content(9) }, ...(buffers[0]?.[0]?.frames.slice(1) ?? [])] }],
}).file;

const inputs: readonly Input[] = [
  { name: 'nothing is wrong', says: /ready: 1|restorable/, status: 0, only: 'preflight' },
  {
    name: 'a pages file is missing',
    says: /0-0000\.img: not in/,
    ...missing,
    after: (folder) => rm(first(folder)),
  },
  {
    name: 'a pages file is a link',
    says: /not a regular file|a link, folder or special file/,
    after: async (folder) => {
      await rename(first(folder), join(folder, '..', 'away'));
      await symlink('../away', first(folder));
    },
  },
  {
    name: 'a pages file is a FIFO',
    says: /not a regular file|a link, folder or special file/,
    after: instead((path) => execFileSync('mkfifo', [path])),
  },
  {
    name: 'a pages file is a folder',
    says: /not a regular file|a link, folder or special file/,
    after: instead((path) => mkdir(path)),
  },
  {
    name: 'a pages file is cut',
    says: /0-0000\.img: is \d+ bytes, was \d+/,
    after: (folder) => truncate(first(folder), 5000),
  },
  {
    name: 'a pages file has a hole of 4 TiB',
    says: /0-0000\.img: is 4398046511104 bytes/,
    after: (folder) => truncate(first(folder), 2 ** 42),
  },
  {
    name: 'a sound pages file that is not the image’s',
    says: /0-0000\.img: (is \d+ bytes|its index does not match)/,
    after: (folder) => writeFile(first(folder), other),
  },
  {
    name: 'a pages file in the image, too',
    says: /0-0001\.img: in (the|an) image(,)? whose contents are elsewhere/,
    isTwice: true,
  },
  {
    name: 'a folder that others may write to',
    says: /others may write to it/,
    code: 'E_IO',
    status: 1,
    after: (folder) => chmod(folder, 0o777),
  },
  {
    name: 'a folder that is a link',
    says: /no such folder/,
    code: 'E_NOT_FOUND',
    status: 4,
    only: 'preflight',
    after: async (folder) => {
      await rename(folder, `${folder}.away`);
      await symlink(`${folder}.away`, folder);
    },
  },
];

const refused = ({ code = 'E_IMAGE_CORRUPT', status = 5, says }: Input) => ({
  status,
  ...(status === 0 ? {} : { code }),
  says,
});

function preflight(input: Input): HostileInput {
  return {
    name: input.name,
    verb: 'preflight',
    program: 'test/hostile/programs/preflight.js',
    args: async (dir) => {
      const parts = soundParts();
      const directory = await bentDirectory(dir, detach, without(input.isTwice ?? false));
      const folder = await folderOf(dir, parts, input.after);
      return [directory, (await hostOptions(dir, 'same'))[1] ?? '', folder];
    },
    ...refused(input),
  };
}

function verb(input: Input, name: 'check' | 'restore'): HostileInput {
  return {
    name: input.name,
    verb: name,
    args: async (dir) => {
      const parts = soundParts();
      detach(parts);
      const archive = await archiveOfParts(dir, parts, { files: without(input.isTwice ?? false) });
      const folder = await folderOf(dir, parts, input.after);
      const host = await hostOptions(dir, 'same');
      const run = name === 'restore' ? ['--run', join(dir, 'run')] : [];
      return [...host, ...run, '--contents', folder, archive];
    },
    ...refused(input),
  };
}

/** The verbs compare sizes, not digests: a session does that. */
const seenByVerbs = inputs.filter(({ only }) => only === undefined);

export const contents: readonly HostileInput[] = [
  ...inputs.map(preflight),
  ...seenByVerbs.map((input) => verb(input, 'check')),
  ...seenByVerbs.map((input) => verb(input, 'restore')),
  {
    name: 'a detached image without its folder',
    verb: 'restore',
    args: async (dir) => {
      const parts = soundParts();
      detach(parts);
      const archive = await archiveOfParts(dir, parts, { files: without(false) });
      return [...(await hostOptions(dir, 'same')), archive];
    },
    ...missing,
    says: /contents: amdgpu-pages-0-0000\.img and 1 more/,
  },
  {
    name: 'a folder for an image that has its contents',
    verb: 'restore',
    args: async (dir) => {
      const parts = soundParts();
      const archive = await archiveOfParts(dir, parts, {});
      const folder = await folderOf(dir, parts, undefined);
      return [...(await hostOptions(dir, 'same')), '--contents', folder, archive];
    },
    status: 2,
    code: 'E_USAGE',
    says: /holds all of its contents itself/,
  },
];
