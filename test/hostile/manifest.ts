/** What manifests say. Their seals are right. */

import type { Files } from '../unit/archive-builder.js';
import { names, type Parts } from '../unit/forged-image.js';
import { type Bend, bentArchive, type Case, refused } from './bent.js';
import type { HostileInput } from './suite.js';

/** Changes one object of the manifest. */
function set(find: (parts: Parts) => object | undefined, values: object): Bend {
  return (parts) => {
    Object.assign(find(parts) ?? {}, values);
  };
}
const top = (values: object) => set(({ manifest }) => manifest, values);
const buffer = (values: object, at = 0) => set(({ manifest }) => manifest.buffers[at], values);
const process = (values: object) => set(({ manifest }) => manifest.processes[0], values);
const file = (values: object, at = 2) => set(({ manifest }) => manifest.files[at], values);
const extFile = (values: object, at = 1) => set(({ manifest }) => manifest.ext_files[at], values);
const gpu = (values: object, at = 1) => set(({ manifest }) => manifest.gpus[at], values);
const parent = { archive: 'base.tar', files: [{ name: names.first, root: 'ab'.repeat(16) }] };

const documents: readonly Case[] = [
  ['has schema version 0', /schema_version/, top({ schema_version: 0 })],
  ['has a schema version in a string', /schema_version/, top({ schema_version: '1' })],
  ['has an unknown member', /unknown: unknown member/, top({ unknown: 1 })],
  ['has an unknown member inside', /buffers\.0/, buffer({ colour: 'red' })],
  ['has a time that is none', /created/, top({ created: 'yesterday' })],
  ['has no GPU', /gpus: not a list of 1 to 256/, top({ gpus: [] })],
  ['has a GPU out of its place', /gpus\.1\.ordinal/, gpu({ ordinal: 0 })],
  ['has a PCI address that is none', /gpus\.1\.location/, gpu({ location: '/dev/kfd' })],
  ['has a buffer of a negative size', /buffers\.0\.size/, buffer({ size: -4096 })],
  ['has a buffer of half a byte', /buffers\.0\.size/, buffer({ size: 0.5 })],
  ['has a buffer of 2^53 bytes', /buffers\.0\.size/, buffer({ size: 2 ** 53 })],
  ['has a size in a string', /buffers\.0\.size/, buffer({ size: '4096' })],
  ['has a kind of buffer that is none', /buffers\.0\.kind/, buffer({ kind: 'userptr' })],
  ['has two buffers with one id', /buffers\.1\.id: 0 is used twice/, buffer({ id: 0 }, 1)],
  ['has one BO in two buffers', /buffers\.1\.bo_index: the same BO/, buffer({ bo_index: 0 }, 1)],
  ['has a buffer of no process', /buffers\.0\.process: there is no/, buffer({ process: 9 })],
  ['has a buffer on no GPU', /buffers\.0\.gpu: there is no GPU/, buffer({ gpu: 9 })],
  ['has a buffer beyond the BOs', /buffers\.0\.bo_index: process 0 has 5/, buffer({ bo_index: 5 })],
  ['has a pages file of another GPU', /belongs to another/, buffer({ pages_file: names.second })],
  [
    'has a pages file in another folder',
    /buffers\.0\.pages_file/,
    buffer({ pages_file: '../x.img' }),
  ],
  ['has a file with an absolute name', /files\.2\.name/, file({ name: '/etc/passwd' })],
  ['has a file in the folder above', /files\.2\.name/, file({ name: '../kfd-state-0.img' })],
  ['has a name with a line feed', /files\.2\.name/, file({ name: `${names.first}\n` })],
  ['has a name with a zero byte', /files\.2\.name/, file({ name: `${names.first}\0` })],
  ['has a name with a leading zero', /files\.2\.name/, file({ name: 'amdgpu-pages-00-0000.img' })],
  ['has a name with capital digits', /files\.2\.name/, file({ name: 'amdgpu-pages-0-000A.img' })],
  [
    'has a file twice',
    /is named twice/,
    ({ manifest }) => manifest.files.push(manifest.files[0] as never),
  ],
  ['lacks the state file', /not among files/, ({ manifest }) => manifest.files.splice(0, 1)],
  [
    'has a file that belongs to nothing',
    /belongs to nothing/,
    ({ manifest }) => manifest.buffers.splice(2, 1),
  ],
  [
    'has a digest of another kind',
    /digest\.algo/,
    ({ manifest }) =>
      Object.assign(manifest.files[2] as object, { digest: manifest.files[0]?.digest }),
  ],
  [
    'has a digest in capital letters',
    /files\.2\.digest/,
    file({ digest: { algo: 'xxh3-128', hex: 'AB'.repeat(16) } }),
  ],
  [
    'has the state of another process',
    /is not the state of process 0/,
    process({ state_file: names.first }),
  ],
  ['has a process on no GPU', /there is no GPU 7/, process({ gpus: [7] })],
  ['has a process on one GPU twice', /a GPU is named twice/, process({ gpus: [0, 0] })],
  [
    'has a share of no buffer',
    /shares\.0\.buffer: there is no/,
    top({ shares: [{ process: 0, bo_index: 3, buffer: 77 }] }),
  ],
  [
    'has a share that is a buffer',
    /shares\.0\.bo_index: the same BO/,
    top({ shares: [{ process: 0, bo_index: 0, buffer: 1 }] }),
  ],
  ['has one id of CRIU twice', /criu_id: 5 is used twice/, extFile({ criu_id: 5 })],
  ['has a render file without a GPU', /ext_files\.1/, extFile({ gpu: undefined, kind: 'drm' })],
  [
    'has a dma-buf without a buffer',
    /for a dma-buf, and for nothing else/,
    extFile({ kind: 'dmabuf' }),
  ],
  ['has a dma-buf of no buffer', /has no buffer 99/, extFile({ kind: 'dmabuf', buffer: 99 })],
  ['has a file of a process that is not there', /there is no process 8/, extFile({ process: 8 })],
  [
    'has the contents of a render file in a state file',
    /is not the state of a render file/,
    extFile({ render_state: names.state }),
  ],
  ['has a parent without the feature', /the parent do not agree/, top({ parent })],
  [
    'has the feature without a parent',
    /the parent do not agree/,
    top({ features: { required: ['parent'], optional: [] } }),
  ],
  [
    'has a parent in another folder',
    /parent\.archive/,
    top({ parent: { ...parent, archive: '../base.tar' } }),
  ],
  [
    'has a parent that is a folder',
    /parent\.archive/,
    top({ parent: { ...parent, archive: '..' } }),
  ],
  ['has a parent of no file', /parent\.files/, top({ parent: { ...parent, files: [] } })],
  [
    'has a feature with a strange name',
    /features\.required/,
    top({ features: { required: ['A b'], optional: [] } }),
  ],
  ['has a negative time', /timings_us/, top({ timings_us: { state: -1 } })],
  ['has a time with a strange name', /timings_us/, top({ timings_us: { 'a b': 1 } })],
  ['ignores a difference that is none', /ignored/, top({ ignored: ['everything'] })],
];

/** Sound, and as large as they may be. */
const large: readonly HostileInput[] = [
  {
    name: 'a manifest one byte above its limit',
    verb: 'inspect',
    args: async (dir) => {
      const files = (all: Files) => {
        all['checkpoint/kfd-manifest.json'] = Buffer.alloc((64 << 20) + 1, ' ');
      };
      return [await bentArchive(dir, () => undefined, { files })];
    },
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    says: /larger than 67108864 bytes/,
  },
  {
    name: 'a newer manifest',
    verb: 'inspect',
    args: async (dir) => [await bentArchive(dir, top({ schema_version: 2 }))],
    status: 5,
    code: 'E_IMAGE_VERSION',
  },
  {
    name: 'a process name with control characters',
    verb: 'inspect',
    args: async (dir) => [await bentArchive(dir, process({ comm: 'a\u001b[2J\u009b\n\u202eb' }))],
    status: 0,
  },
  {
    name: '50,000 shares of one buffer',
    verb: 'inspect',
    args: async (dir) => [await bentArchive(dir, shares(50_000), { level: 1 })],
    status: 0,
  },
  {
    name: '65,536 device files',
    verb: 'inspect',
    args: async (dir) => {
      const bend: Bend = ({ manifest }) => {
        for (let id = 100; manifest.ext_files.length < 65_536; id++) {
          manifest.ext_files.push({ criu_id: id, kind: 'drm', process: 0, gpu: 0 });
        }
      };
      return [await bentArchive(dir, bend, { level: 1 })];
    },
    status: 0,
  },
  {
    name: '100,000 contradictions',
    verb: 'check',
    args: async (dir) => {
      const bend: Bend = ({ manifest }) => {
        const wrong = { process: 3, bo_index: 9, buffer: 99 };
        manifest.shares = Array.from({ length: 100_000 }, () => wrong);
      };
      return [await bentArchive(dir, bend, { level: 1 })];
    },
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    says: /and at least 95 more/,
  },
];

function shares(count: number): Bend {
  return ({ manifest }) => {
    Object.assign(manifest.processes[0] as object, { num_bos: count + 5 });
    manifest.shares = Array.from({ length: count }, (_, i) => ({
      process: 0,
      bo_index: i + 5,
      buffer: 0,
    }));
  };
}

export const manifest: readonly HostileInput[] = [...refused('inspect', documents), ...large];
