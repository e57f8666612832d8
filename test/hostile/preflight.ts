/** Image directories for the session's checks before a restore, which run as a process of their own. */

import { execFileSync } from 'node:child_process';
import { mkdir, rename, symlink, truncate, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ErrorCode } from '../../src/errors.js';
import {
  buffers,
  content,
  describeFiles,
  gpuIds,
  kfdBos,
  names,
  type Parts,
} from '../unit/forged-image.js';
import { pagesFile } from '../unit/forged-pages.js';
import { renderStateFile, stateFile } from '../unit/forged-state.js';
import { type Bend, bentDirectory, replaced } from './bent.js';
import { hostOptions } from './sound.js';
import type { HostileInput } from './suite.js';

interface Image {
  readonly name: string;
  readonly says: RegExp;
  readonly code?: ErrorCode;
  readonly status?: number;
  readonly bend?: Bend;
  /** After all files are in `directory`. */
  readonly after?: (directory: string) => Promise<unknown>;
}

const devices = gpuIds.map((id) => [id, id] as const);
const whole = { devices, bos: kfdBos };

/** Moves a file away and puts a link to it into its place. */
const linked = (name: string) => async (directory: string) => {
  await rename(join(directory, name), join(directory, '..', name));
  await symlink(join('..', name), join(directory, name));
};

/** Something else takes the place of a file. */
const instead = (name: string, make: (path: string) => unknown) => async (directory: string) => {
  await unlink(join(directory, name));
  await make(join(directory, name));
};

const manifestName = 'kfd-manifest.json';
const missing = { code: 'E_IMAGE_MISSING', status: 4 } as const;
const fifo = (path: string) => execFileSync('mkfifo', [path]);

const images: readonly Image[] = [
  { name: 'nothing is wrong', says: /ready: 1/, status: 0 },
  ...[names.state, names.render, names.first].flatMap((name): Image[] => [
    {
      name: `${name} is missing`,
      says: /not in the image/,
      ...missing,
      after: (dir) => unlink(join(dir, name)),
    },
    { name: `${name} is a link`, says: /not a regular file/, after: linked(name) },
    { name: `${name} is a FIFO`, says: /not a regular file/, after: instead(name, fifo) },
    {
      name: `${name} is a folder`,
      says: /not a regular file/,
      after: instead(name, (path) => mkdir(path)),
    },
    {
      name: `${name} is a device`,
      says: /not a regular file/,
      after: instead(name, (path) => symlink('/dev/zero', path)),
    },
    {
      name: `${name} has no byte`,
      says: /is 0 bytes, was \d+/,
      after: (dir) => truncate(join(dir, name), 0),
    },
    {
      name: `${name} has a hole of 4 TiB`,
      says: /is 4398046511104 bytes/,
      after: (dir) => truncate(join(dir, name), 2 ** 42),
    },
  ]),
  {
    name: 'the manifest is missing',
    says: /never finished/,
    code: 'E_IMAGE_UNSEALED',
    after: (dir) => unlink(join(dir, manifestName)),
  },
  {
    name: 'the manifest is a link',
    says: /kfd-manifest\.json: not a regular file/,
    after: linked(manifestName),
  },
  {
    name: 'the manifest is a folder',
    says: /kfd-manifest\.json/,
    after: instead(manifestName, (path) => mkdir(path)),
  },
  {
    name: 'the manifest is a FIFO',
    says: /not a regular file/,
    after: instead(manifestName, fifo),
  },
  {
    name: 'the manifest is endless',
    says: /not a regular file/,
    after: instead(manifestName, (path) => symlink('/dev/zero', path)),
  },
  {
    name: 'the manifest is 4.5 MB of empty buffers',
    says: /and 7 more/,
    after: (dir) =>
      writeFile(
        join(dir, manifestName),
        `{"schema_version":1,"buffers":[${'{},'.repeat(1_500_000)}{}]}`,
      ),
  },
  {
    name: 'the manifest has a hole of 4 TiB',
    says: /larger than 67108864/,
    after: (dir) => truncate(join(dir, manifestName), 2 ** 42),
  },
  {
    name: 'a sound pages file that is not the manifest’s',
    says: /0-0001\.img: its index does not match/,
    bend: ({ files }) =>
      void files.set(
        names.second,
        pagesFile({ gpu: 1, buffers: [{ id: 2, frames: [{ raw: content(9) }] }] }).file,
      ),
  },
  {
    name: 'two pages files in each other’s place',
    says: /amdgpu-pages-0-000\d\.img: /,
    bend: (parts) => {
      const [first, second] = [names.first, names.second].map((name) => parts.files.get(name));
      parts.files.set(names.first, second ?? Buffer.of()).set(names.second, first ?? Buffer.of());
      describeFiles(parts);
    },
  },
  {
    name: 'a pages file of another process',
    says: /belongs to amdgpu-pages-7-0001/,
    bend: replaced(names.second, pagesFile({ process: 7, gpu: 1, buffers: buffers[1] ?? [] }).file),
  },
  {
    name: 'a pages file of other buffers',
    says: /buffer 9 is not/,
    bend: replaced(
      names.second,
      pagesFile({ gpu: 1, buffers: [{ id: 9, frames: [{ raw: content(4) }] }] }).file,
    ),
  },
  {
    name: 'a state that is not the manifest’s',
    says: /does not match its digest/,
    bend: ({ files }) => void files.set(names.state, stateFile({ ...whole, nsPid: 9 })),
  },
  {
    name: 'a state of another process',
    says: /belongs to kfd-state-4/,
    bend: replaced(names.state, stateFile({ ...whole, ordinal: 4 })),
  },
  {
    name: 'a render state of another number',
    says: /belongs to render-state-4/,
    bend: replaced(names.render, renderStateFile({ ordinal: 4 })),
  },
  {
    name: 'a BO of another size',
    says: /BO 0 is vram of 4096/,
    bend: replaced(
      names.state,
      stateFile({ devices, bos: [{ size: 4096, flags: 1 }, ...kfdBos.slice(1)] }),
    ),
  },
  {
    name: 'a BO of 2^60 bytes',
    says: /larger than any memory/,
    bend: replaced(
      names.state,
      stateFile({ devices, bos: [{ size: 2n ** 60n, flags: 8 }, ...kfdBos] }),
    ),
  },
  {
    name: 'more BOs than the manifest says',
    says: /BO 5 has contents/,
    bend: replaced(names.state, stateFile({ devices, bos: [...kfdBos, kfdBos[3]] })),
  },
  {
    name: 'a GPU that its process does not know',
    says: /process 0 has no GPU 0/,
    bend: replaced(names.state, stateFile({ devices: [[1, 2]], bos: kfdBos })),
  },
  {
    name: 'a shared buffer in private data that is not there',
    code: 'E_UNSUPPORTED_STATE',
    status: 1,
    says: /private data has a layout/,
    bend: sharing,
  },
  {
    name: 'another machine',
    code: 'E_KERNEL_MISMATCH',
    says: /machine/,
    bend: ({ manifest }) => void Object.assign(manifest.host, { machine: 'riscv64' }),
  },
  {
    name: 'a parent that is not at hand',
    says: /parent/,
    ...missing,
    bend: ({ manifest }) => {
      manifest.parent = {
        archive: 'base.tar',
        files: [{ name: names.first, root: 'ab'.repeat(16) }],
      };
      manifest.features = { required: ['parent'], optional: [] };
    },
  },
  {
    name: 'an unknown feature',
    code: 'E_UNSUPPORTED_STATE',
    status: 1,
    says: /teleport/,
    bend: ({ manifest }) =>
      void Object.assign(manifest, { features: { required: ['teleport'], optional: [] } }),
  },
];

/** BO 1 becomes a handle of the first buffer. The state has no private data. */
function sharing(parts: Parts): void {
  const { manifest } = parts;
  manifest.buffers = manifest.buffers.filter(({ id }) => id !== 1);
  manifest.shares = [{ process: 0, bo_index: 1, buffer: 0 }];
  const left = buffers[0]?.filter(({ id }) => id !== 1) ?? [];
  replaced(names.first, pagesFile({ buffers: left }).file)(parts);
}

/** 40 processes with 16 MiB of private data each: more than may be in memory at once. */
const large: readonly Image[] = [
  {
    name: '40 states of 16 MiB',
    says: /ready: 41/,
    status: 0,
    bend: (parts) => {
      const { manifest, files } = parts;
      const [process] = manifest.processes;
      for (let ordinal = 1; ordinal <= 40 && process; ordinal++) {
        const name = `kfd-state-${ordinal}.img`;
        files.set(name, stateFile({ ordinal, priv: Buffer.alloc(16 << 20) }));
        manifest.processes.push({ ...process, ordinal, state_file: name, num_bos: 0 });
      }
      describeFiles(parts);
    },
  },
  {
    name: '300,000 BOs without contents',
    says: /ready: 1/,
    status: 0,
    bend: (parts) => {
      const bos = [...kfdBos, ...Array(300_000).fill({ size: 4096, flags: 8 })];
      Object.assign(parts.manifest.processes[0] as object, { num_bos: bos.length + 1 });
      Object.assign(parts.manifest.buffers[3] as object, { bo_index: bos.length });
      replaced(names.state, stateFile({ devices, bos }))(parts);
    },
  },
];

export const preflight: readonly HostileInput[] = [...images, ...large].map(
  ({ name, says, code, status, bend = () => undefined, after }) => ({
    name,
    verb: 'preflight',
    program: 'test/hostile/programs/preflight.js',
    args: async (dir) => {
      const directory = await bentDirectory(dir, bend);
      await after?.(directory);
      return [directory, (await hostOptions(dir, 'same'))[1] ?? ''];
    },
    says,
    status: status ?? 5,
    ...(status === 0 ? {} : { code: code ?? 'E_IMAGE_CORRUPT' }),
  }),
);
