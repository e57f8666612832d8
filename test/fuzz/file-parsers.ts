/** Archives, and the files of /proc and /sys. They are read from files in a folder in memory. */

import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readParameters, svmGpus } from '../../src/gpu/driver-state.js';
import { readHost } from '../../src/gpu/host.js';
import { fixtures } from '../unit/paths.js';
import { randomFrom } from '../unit/random.js';
import { askOurs } from './differential/compare.js';
import type { Parser } from './parser.js';
import { gzipped, tarFrom } from './tar-grammar.js';

/** A folder for the files of one process; whoever runs fuzzers removes it. */
const folder = mkdtempSync('/dev/shm/kfd-fuzz-');
export const fuzzFolder: string = folder;

const archiveSeeds = Array.from({ length: 24 }, (_, seed) => {
  const random = randomFrom(seed * 7919 + 77);
  const tar = tarFrom(random);
  return seed % 3 === 0 ? gzipped(tar, random) : tar;
});

const archives: Parser = {
  name: 'archives',
  seeds: archiveSeeds,
  tokens: [
    '\0',
    '0000644\0',
    'ustar\x0000',
    'checkpoint/',
    '\x81',
    '\xff',
    '13 path=b\n',
    'x',
    'L',
    '7',
  ],
  async run(input) {
    const path = join(folder, 'archive');
    await writeFile(path, input);
    const { found } = await askOurs(path);
    const names = found.map(({ name }) => name);
    assert.equal(new Set(names).size, names.length, 'no name is there twice');
    for (const name of names) {
      assert.ok(!name.startsWith('/') && !name.split('/').includes('..'), name);
    }
  },
};

const node = 'sys/class/kfd/kfd/topology/nodes/1';
const render = 'sys/devices/pci0000:00/0000:03:00.0';
/** The files that one input is the text of, one after the other, with a zero between them. */
const hostFiles = [
  `${node}/properties`,
  `${node}/gpu_id`,
  `${node}/mem_banks/0/properties`,
  `${render}/mem_info_vram_total`,
  'proc/devices',
  'proc/cpuinfo',
  'proc/sys/kernel/osrelease',
  'sys/class/kfd/kfd/dev',
  'sys/class/kfd/kfd/proc/77/queues/0/type',
  'sys/class/kfd/kfd/proc/77/queues/0/gpuid',
  'sys/module/amdgpu/parameters/mes',
  'sys/module/amdgpu/version',
];

const hosts: Parser = {
  name: 'host',
  seeds: [
    Buffer.from(
      [
        'simd_count 416\ngfx_target_version 90010\ndrm_render_minor 128\nhive_id 7\nlocation_id 768\n',
        '51966\n',
        'heap_type 1\nsize_in_bytes 68702699520\n',
        '68702699520\n',
        'Character devices:\n234 kfd\n\nBlock devices:\n',
        'model name\t: X\nflags\t\t: fpu avx2\n',
        '6.12.117\n',
        '234:0\n',
        '1\n',
        '51966\n',
        '1\n',
        '6.16.6\n',
      ].join('\0'),
    ),
  ],
  tokens: [
    '\0',
    '\n',
    ' ',
    '18446744073709551616',
    '-1',
    'drm_render_minor',
    ':',
    '0x',
    '9e99',
    '\xff',
  ],
  async run(input) {
    const parts = input.toString('latin1').split('\0');
    for (const [index, path] of hostFiles.entries()) {
      const text = Buffer.from(parts[index] ?? '', 'latin1');
      await writeFile(join(hostRoot, path), text);
    }
    const host = await readHost({ root: hostRoot });
    await readParameters(hostRoot);
    for (const id of await svmGpus(hostRoot)) assert.ok(Number.isSafeInteger(id), `${id}`);
    for (const { record, vramFreeBytes } of host.gpus) {
      assert.ok(Number.isSafeInteger(record.gpu_id) && record.gpu_id > 0);
      assert.ok(Number.isSafeInteger(record.vram_bytes), `${record.vram_bytes}`);
      assert.ok(vramFreeBytes === undefined || vramFreeBytes >= 0);
      assert.match(record.location, /^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/);
    }
  },
};

const hostRoot = join(folder, 'host');
cpSync(join(fixtures, 'sysfs/one-gpu'), hostRoot, { recursive: true, verbatimSymlinks: true });
for (const path of hostFiles) {
  mkdirSync(dirname(join(hostRoot, path)), { recursive: true });
  writeFileSync(join(hostRoot, path), '');
}

export const fileParsers: readonly Parser[] = [archives, hosts];
