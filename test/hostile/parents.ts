/** Archives and their parents, for the verbs that put both together. */

import { execFileSync } from 'node:child_process';
import { link, mkdir, rename, symlink, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import type { ErrorCode } from '../../src/errors.js';
import {
  buffers,
  childParts,
  content,
  describeFiles,
  names,
  type Parts,
  soundParts,
} from '../unit/forged-image.js';
import { type ForgedFrame, pagesFile } from '../unit/forged-pages.js';
import { archiveOfParts } from './bent.js';
import { hostOptions } from './sound.js';
import type { HostileInput } from './suite.js';

interface Pair {
  readonly name: string;
  readonly says: RegExp;
  readonly code?: ErrorCode;
  readonly status?: number;
  /** Before the child is made of the base. */
  readonly base?: (base: Parts) => void;
  readonly child?: (child: Parts, base: Parts) => void;
  /** After both archives are in `dir`. */
  readonly after?: (dir: string) => Promise<unknown>;
  /** Level of gzip of both; not compressed without it. */
  readonly level?: number;
}

async function written(dir: string, { base: bendBase, child: bendChild, after, level }: Pair) {
  const base = soundParts();
  bendBase?.(base);
  const child = childParts(base);
  bendChild?.(child, base);
  await archiveOfParts(dir, base, { name: 'base.tar', level });
  await archiveOfParts(dir, child, { name: 'job.tar', level });
  await after?.(dir);
}

/** Both verbs refuse the pair. Neither leaves a file, and podman is not called. */
function pair(one: Pair): HostileInput[] {
  const { name, says, code = 'E_IMAGE_CORRUPT', status = 5 } = one;
  return [
    {
      name,
      verb: 'flatten',
      args: async (dir) => {
        await written(dir, one);
        return ['--quiet', join(dir, 'job.tar'), '--output', join(dir, 'flat.tar')];
      },
      status,
      code,
      says,
    },
    {
      name,
      verb: 'restore',
      args: async (dir) => {
        await written(dir, one);
        const parent = ['--quiet', '--parent', join(dir, 'base.tar'), join(dir, 'job.tar')];
        return [...(await hostOptions(dir, 'moved')), ...parent];
      },
      status,
      code,
      says,
    },
  ];
}

/** The first file of the child, with another first frame. The recorded root may stay the old one. */
function firstFrame(frame: ForgedFrame, isDescribed = true) {
  return (child: Parts) => {
    const [first, ...others] = buffers[0] ?? [];
    const frames = [frame, ...(first?.frames.slice(1) ?? [])];
    const parent = child.manifest.parent?.files[0]?.root ?? '';
    const { file } = pagesFile({ parent, buffers: [{ id: 0, frames }, ...others] });
    replace(child, names.first, file, isDescribed);
  };
}

function replace(parts: Parts, name: string, bytes: Buffer, isDescribed = true): void {
  const roots = new Map(parts.manifest.files.map((file) => [file.name, file.digest]));
  parts.files.set(name, bytes);
  describeFiles(parts);
  if (isDescribed) return;
  for (const file of parts.manifest.files) Object.assign(file, { digest: roots.get(file.name) });
}

const otherSecond = pagesFile({ gpu: 1, buffers: [{ id: 2, frames: [{ raw: content(9) }] }] }).file;
const plainFirst = (seed: number) => {
  const [first, ...others] = buffers[0] ?? [];
  const frames = [{ raw: content(seed) }, ...(first?.frames.slice(1) ?? [])];
  return pagesFile({ buffers: [{ id: 0, frames }, ...others] }).file;
};
const missing = { code: 'E_IMAGE_MISSING', status: 4 } as const;

const pairs: readonly Pair[] = [
  {
    name: 'a sound pages file of the child that is not its manifest’s',
    says: /0-0000\.img: its index does not match the digest in the manifest/,
    child: firstFrame({ raw: content(9) }, false),
  },
  {
    name: 'a sound pages file without references that is not its manifest’s',
    says: /0-0001\.img: its index does not match/,
    child: (child) => replace(child, names.second, otherSecond, false),
  },
  {
    name: 'a sound pages file of the parent that is not its manifest’s',
    says: /0-0000\.img: its index does not match/,
    child: (_, base) => replace(base, names.first, plainFirst(9), false),
  },
  {
    name: 'another content in the parent',
    says: /refers to another content|is not the parent/,
    child: firstFrame({ like: content(8), reference: 0 }),
  },
  {
    name: 'a reference to a zero frame of the parent',
    says: /refers to another content/,
    child: firstFrame({ like: content(1), reference: 2 }),
  },
  {
    name: 'a reference beyond the parent',
    says: /refers to a frame that is not there/,
    child: firstFrame({ like: content(1), reference: 99 }),
  },
  {
    name: 'a reference to frame 4,194,303',
    says: /refers to a frame that is not there/,
    child: firstFrame({ like: content(1), reference: (1 << 22) - 1 }),
  },
  {
    name: 'the ordinals of another GPU',
    says: /0-0001\.img: belongs to another process or GPU/,
    child: (child) =>
      replace(child, names.second, pagesFile({ gpu: 0, buffers: buffers[1] ?? [] }).file),
  },
  {
    name: 'the ordinals of another process',
    says: /0-0001\.img: belongs to another process or GPU/,
    child: (child) =>
      replace(
        child,
        names.second,
        pagesFile({ process: 3, gpu: 1, buffers: buffers[1] ?? [] }).file,
      ),
  },
  {
    name: 'another buffer than the manifest has',
    says: /buffer 2 is not in the manifest/,
    child: ({ manifest }) => void Object.assign(manifest.buffers[2] as object, { id: 77 }),
  },
  {
    name: 'a frame of the parent with a changed bit',
    says: /frame 0: /,
    child: (_, { files }) => {
      const file = files.get(names.first);
      if (file) file[9000] = (file[9000] ?? 0) ^ 1;
    },
  },
  {
    name: 'a parent whose pages file is missing',
    says: /amdgpu-pages-0-0000\.img/,
    ...missing,
    child: (_, { files }) => void files.delete(names.first),
  },
  {
    name: 'a parent of other contents',
    says: /is not the parent/,
    ...missing,
    child: (_, base) => replace(base, names.first, plainFirst(7)),
  },
  {
    name: 'a parent that is a folder without an image',
    says: /neither an image directory nor a bundle/,
    after: async (dir) => {
      await rename(join(dir, 'base.tar'), join(dir, 'away'));
      await mkdir(join(dir, 'base.tar'));
    },
  },
  {
    name: 'a parent that is a FIFO',
    says: /neither a file nor a directory/,
    after: async (dir) => {
      await rename(join(dir, 'base.tar'), join(dir, 'away'));
      execFileSync('mkfifo', [join(dir, 'base.tar')]);
    },
  },
  {
    name: 'a parent that is a link to itself',
    says: /ELOOP/,
    code: 'E_IO',
    status: 1,
    after: async (dir) => {
      await rename(join(dir, 'base.tar'), join(dir, 'away'));
      await symlink('base.tar', join(dir, 'base.tar'));
    },
  },
  {
    name: 'a parent that is cut',
    says: /base\.tar: /,
    after: (dir) => truncate(join(dir, 'base.tar'), 1 << 20),
  },
  {
    name: 'a parent without a byte',
    says: /base\.tar: not a tar archive/,
    after: (dir) => truncate(join(dir, 'base.tar'), 0),
  },
  {
    name: 'an archive that is its own parent',
    says: /is its own ancestor/,
    child: ({ manifest }) => {
      const root = manifest.files.find(({ name }) => name === names.first)?.digest.hex ?? '';
      Object.assign(manifest, {
        parent: { archive: 'base.tar', files: [{ name: names.first, root }] },
      });
    },
    after: async (dir) => {
      await rename(join(dir, 'base.tar'), join(dir, 'away'));
      await link(join(dir, 'job.tar'), join(dir, 'base.tar'));
    },
  },
  {
    name: 'a pages file of 120 MiB of zeros in the parent, compressed',
    says: /amdgpu-pages-0-0001\.img: pages file: bad magic/,
    level: 1,
    child: (_, base) => replace(base, names.second, Buffer.alloc(120 << 20)),
  },
  {
    name: 'a pages file in the parent that is longer than its manifest says, compressed',
    says: /amdgpu-pages-0-0001\.img: is \d+ bytes, was \d+ when sealed/,
    level: 1,
    child: (_, { files }) =>
      void files.set(names.second, Buffer.concat([otherSecond, Buffer.alloc(32 << 20)])),
  },
];

const usage: readonly HostileInput[] = [
  {
    name: 'a parent that is not there',
    verb: 'flatten',
    args: async (dir) => {
      await archiveOfParts(dir, childParts(soundParts()), {});
      return [join(dir, 'job.tar'), '--output', join(dir, 'flat.tar')];
    },
    status: 4,
    code: 'E_IMAGE_MISSING',
    says: /its parent base\.tar is not beside it/,
  },
  {
    name: 'an archive without a parent',
    verb: 'flatten',
    args: async (dir) => {
      await archiveOfParts(dir, soundParts(), {});
      return [join(dir, 'job.tar'), '--output', join(dir, 'flat.tar')];
    },
    status: 2,
    code: 'E_USAGE',
  },
  {
    name: 'an output that is there already',
    verb: 'flatten',
    args: async (dir) => {
      await written(dir, { name: '', says: /x/ });
      return [join(dir, 'job.tar'), '--output', join(dir, 'base.tar')];
    },
    status: 1,
    code: 'E_IO',
    says: /EEXIST/,
  },
  {
    name: 'a parent too many',
    verb: 'flatten',
    args: async (dir) => {
      await written(dir, { name: '', says: /x/ });
      const base = ['--parent', join(dir, 'base.tar')];
      return [...base, ...base, join(dir, 'job.tar'), '--output', join(dir, 'flat.tar')];
    },
    status: 2,
    code: 'E_USAGE',
    says: /needs 1 parents, not more/,
  },
];

export const parents: readonly HostileInput[] = [...pairs.flatMap(pair), ...usage];
