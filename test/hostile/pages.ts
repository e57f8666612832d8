/** Pages files whose checksums are right and whose fields are not. */

import { execFileSync } from 'node:child_process';
import { truncateSync } from 'node:fs';
import { join } from 'node:path';
import { content, describeFiles, names } from '../unit/forged-image.js';
import {
  type ForgedBuffer,
  type ForgedPages,
  frameBytes,
  pagesFile,
} from '../unit/forged-pages.js';
import { stateFile } from '../unit/forged-state.js';
import {
  type Bend,
  bentArchive,
  bentDirectory,
  type Case,
  changed,
  refused,
  replaced,
} from './bent.js';
import type { HostileInput } from './suite.js';

const sound: readonly ForgedBuffer[] = [{ id: 2, frames: [{ raw: content(4) }] }];

/** The second pages file is another one, which the manifest describes. */
function forged(pages: Partial<ForgedPages>): Bend {
  return replaced(names.second, pagesFile({ gpu: 1, buffers: sound, ...pages }).file);
}
type Bender = (block: Buffer) => void;
const header = (bendHeader: Bender) => forged({ bendHeader });
const index = (bendIndex: Bender) => forged({ bendIndex });
const table = (bendTables: Bender) => forged({ bendTables });
const record = (bendRecord: Bender) => forged({ bendRecord });
const footer = (bendFooter: Bender) => forged({ bendFooter });

const u32 = (at: number, value: number) => (block: Buffer) => void block.writeUInt32LE(value, at);
const u64 = (at: number, value: bigint) => (block: Buffer) =>
  void block.writeBigUInt64LE(value, at);
const codec = (value: number) => (block: Buffer) => void block.fill(value, 4, 5);
const both =
  (...bends: readonly Bender[]) =>
  (block: Buffer) => {
    for (const bend of bends) bend(block);
  };
const all = 2n ** 64n - 1n;

const headers: readonly Case[] = [
  ['another magic', /bad magic/, header(u32(0, 0))],
  ['version 0', /version 0/, header(u32(8, 0))],
  ['version 2', /version 2/, header(u32(8, 2))],
  ['another header size', /bad header size/, header(u32(12, 8192))],
  ['an unknown required feature', /required features 2/, header(u64(16, 2n))],
  ['the last required feature', /required features \d+/, header(u64(16, 2n ** 63n))],
  ['references without a parent', /references and parent/, header(u64(16, 1n))],
  ['a parent without references', /references and parent/, header(u32(48, 1))],
  [
    'siblings without digests',
    /siblings without digests/,
    forged({ digests: false, bendHeader: u64(16, 32n) }),
  ],
  [
    'references without digests',
    /references without digests/,
    forged({
      digests: false,
      parent: 'ab'.repeat(16),
      buffers: [{ id: 2, frames: [{ like: content(4), reference: 0 }] }],
    }),
  ],
  ['frames of no bytes', /bad frame size/, header(u32(32, 0))],
  ['frames of 8 MiB', /bad frame size/, header(u32(32, 8 << 20))],
  ['frames of 4 GiB', /bad frame size/, header(u32(32, 0xfffff000))],
  ['encryption', /fields without their feature/, header(u32(64, 1))],
  ['reserved bytes', /reserved header bytes/, forged({ digests: false, bendHeader: u32(4000, 1) })],
  ['another process', /process is 9, the manifest says 0/, header(u32(36, 9))],
  ['another GPU', /gpu is 4294967295, the manifest says 1/, header(u32(40, 0xffffffff))],
];

const indexes: readonly Case[] = [
  ['an index with another magic', /bad (index|frame) magic/, index(u32(0, 0))],
  ['4,294,967,295 buffers', /too many buffers/, index(u32(8, 0xffffffff))],
  ['1,048,576 buffers that are not there', /pages file: /, index(u32(8, 1 << 20))],
  ['no buffers', /pages file: /, index(u32(8, 0))],
  ['records without pages', /bad index page size/, index(u32(12, 0))],
  ['2^64 - 1 frames', /too many frames/, index(u64(16, all))],
  ['4,194,304 frames that are not there', /pages file: /, index(u64(16, 1n << 22n))],
  ['more zero frames than frames', /more zero frames than frames/, index(u64(24, 9n))],
  ['another sum of contents', /content size differs/, index(u64(32, 1n))],
  ['another sum of stored bytes', /sum of stored bytes differs/, index(u64(40, 1n))],
  ['a number of references without any', /references without/, index(u32(48, 1))],
  ['a number of siblings without any', /siblings without/, index(u32(52, 1))],
  ['a buffer without bytes', /empty buffer/, table(u64(8, 0n))],
  ['a buffer of 2^63 bytes', /buffer size and frames differ/, table(u64(8, 2n ** 63n))],
  ['a buffer of 2^64 - 1 bytes and frames', /pages file: /, table(both(u64(8, all), u64(24, all)))],
  ['a buffer that begins with the second frame', /buffers out of order/, table(u64(16, 1n))],
  ['reserved bytes of a buffer', /reserved buffer bytes/, table(u32(4, 1))],
  ['a digest of another page of records', /frame page digest differs/, table(u32(32, 1))],
  ['bytes in the padding of the index', /padding of the index/, table(u32(60, 1))],
  ['another buffer than the manifest', /buffer 9 is not in the manifest/, table(u32(0, 9))],
  [
    'a buffer of another size',
    /size of buffer 2 is 4096/,
    forged({ buffers: [{ id: 2, frames: [{ raw: content(4, 4096) }] }] }),
  ],
  [
    'one buffer too many',
    /number of buffers is 2/,
    forged({ buffers: [...sound, { id: 9, frames: [{ zero: 1 }] }] }),
  ],
  ['one buffer twice', /buffer id used twice/, forged({ buffers: [...sound, ...sound] })],
  ['no buffer at all', /number of buffers is 0/, forged({ buffers: [] })],
];

const records: readonly Case[] = [
  ['a record with another magic', /bad (frame|index) magic/, record(u32(0, 0))],
  ['an unknown codec', /unknown codec 99/, record(codec(99))],
  ['a codec without its feature', /pages file: /, record(codec(4))],
  ['flags of a frame', /reserved frame bytes/, record((block) => void block.fill(1, 5, 6))],
  ['a frame without bytes', /bad frame length/, record(u32(20, 0))],
  ['a frame longer than frames are', /bad frame length/, record(u32(20, frameBytes + 1))],
  ['a raw frame of another length', /raw frame of another length/, record(u32(16, 4096))],
  ['a frame at the beginning of the file', /frame out of place/, record(u64(8, 0n))],
  ['a frame beyond the end of the file', /frame out of place/, record(u64(8, all - 4095n))],
  ['another checksum of a frame', /frame 0: /, record(u64(24, 1n))],
  [
    'another digest of a frame',
    /frame 0: /,
    forged({ buffers: [{ id: 2, frames: [{ raw: content(4), digest: 'ab'.repeat(16) }] }] }),
  ],
  [
    'no digest of a frame',
    /digest of a zero frame, or none/,
    forged({ buffers: [{ id: 2, frames: [{ raw: content(4), digest: '00'.repeat(16) }] }] }),
  ],
  ['bytes behind a digest', /bytes behind a frame digest/, record(u32(60, 1))],
  ['a zstd frame that is none', /frame 0: /, record(both(codec(2), u32(16, 4096), u64(8, 4160n)))],
];

const ends: readonly Case[] = [
  ['a footer with another magic', /bad footer magic/, footer(u32(0, 0))],
  ['an index at 0', /bad index offset/, footer(u64(8, 0n))],
  ['an index at 2^64 - 64', /bad index offset/, footer(u64(8, all - 63n))],
  ['another length than it has', /another length than its footer/, footer(u64(16, 4096n))],
  ['another root in the footer', /root differs|digest is/, footer(u32(24, 1))],
  ['reserved bytes in the footer', /reserved footer bytes/, footer(u32(40, 1))],
  [
    'one byte more',
    /pages file: |size is/,
    changed(names.second, (file) => Buffer.concat([file, Buffer.of(0)])),
  ],
  ['no footer', /ends too early/, changed(names.second, (file) => file.subarray(0, -64))],
  ['no byte', /ends too early/, changed(names.second, () => Buffer.alloc(0))],
  ['4096 zero bytes', /bad magic/, changed(names.second, () => Buffer.alloc(4096))],
  ['one changed bit of content', /frame 0: /, changed(names.second, (file) => flipped(file, 9000))],
];

function flipped(file: Buffer, at: number): Buffer {
  file[at] = (file[at] ?? 0) ^ 1;
  return file;
}

/** Much from little: sound for a short time, or of many parts. */
const large: readonly HostileInput[] = [
  {
    name: 'a damaged pages file with a hole of 4 TiB',
    verb: 'verify',
    args: async (dir) => {
      const image = await bentDirectory(dir, () => undefined);
      truncateSync(join(image, names.second), 2 ** 42);
      return [image];
    },
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    says: /amdgpu-pages-0-0001\.img: /,
  },
  {
    name: 'a pages file of 120 MiB of zeros in 120 kB',
    verb: 'verify',
    args: async (dir) => [
      await bentArchive(
        dir,
        changed(names.second, () => Buffer.alloc(120 << 20)),
        { level: 9 },
      ),
    ],
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    says: /amdgpu-pages-0-0001\.img: pages file: bad magic/,
  },
  {
    name: '1,500 small pages files',
    verb: 'verify',
    args: async (dir) => [await bentArchive(dir, manyFiles(1500), { level: 1 })],
    status: 0,
  },
  {
    name: '400 thousand frames',
    verb: 'verify',
    args: async (dir) => {
      const frames = Array(400_000).fill({ zero: frameBytes });
      return [await bentArchive(dir, forged({ buffers: [{ id: 2, frames }] }), { level: 1 })];
    },
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    says: /size of buffer 2 is 419430400000/,
    limits: { seconds: 40 },
  },
  {
    name: 'a zstd frame that grows to 1 GiB',
    verb: 'verify',
    args: async (dir) => {
      const bomb = execFileSync('sh', ['-c', 'head -c 1073741824 /dev/zero | zstd -19 -q -c'], {
        maxBuffer: 1 << 20,
      });
      const packed = pagesFile({
        gpu: 1,
        buffers: [{ id: 2, frames: [{ packed: bomb, codec: 2, like: content(4) }] }],
      });
      return [await bentArchive(dir, replaced(names.second, packed.file))];
    },
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    says: /frame 0: /,
  },
];

function manyFiles(count: number): Bend {
  return (parts) => {
    const { manifest, files } = parts;
    const [process] = manifest.processes;
    if (process === undefined) throw new Error('the sample has a process');
    for (let ordinal = 1; ordinal <= count; ordinal++) {
      const name = `kfd-state-${ordinal}.img`;
      const pages = `amdgpu-pages-${ordinal}-0000.img`;
      files.set(name, stateFile({ ordinal, bos: [{ size: 4096, flags: 1 }] }));
      manifest.processes.push({ ...process, ordinal, state_file: name, num_bos: 1 });
      const id = 10 + ordinal;
      files.set(
        pages,
        pagesFile({ process: ordinal, buffers: [{ id, frames: [{ zero: 4096 }] }] }).file,
      );
      const at = { process: ordinal, bo_index: 0, gpu: 0, pages_file: pages };
      manifest.buffers.push({ id, size: 4096, kind: 'vram', ...at });
    }
    describeFiles(parts);
  };
}

export const pages: readonly HostileInput[] = [
  ...refused('verify', [...headers, ...indexes, ...records, ...ends]),
  ...large,
];
