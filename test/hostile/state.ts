/** State files and render state files. Their checksums are right, and their manifest describes them. */

import { describeFiles, gpuIds, kfdBos, names, renderBo } from '../unit/forged-image.js';
import { type Field, forged, renderStateFile, stateFile } from '../unit/forged-state.js';
import { type Bend, bentArchive, type Case, changed, refused, replaced } from './bent.js';
import type { HostileInput } from './suite.js';

const devices = gpuIds.map((id) => [id, id] as const);
/** Where records begin in the state of the sound image. */
const deviceAt = 128;
const boAt = deviceAt + 16 * devices.length;

const fields = (...values: readonly Field[]) =>
  changed(names.state, (file) => forged(file, ...values));
const render = (...values: readonly Field[]) =>
  changed(names.render, (file) => forged(file, ...values));
const other = (state: Parameters<typeof stateFile>[0]) => replaced(names.state, stateFile(state));
const otherRender = (state: Parameters<typeof renderStateFile>[0]) =>
  replaced(names.render, renderStateFile(state));
const whole = { devices, bos: kfdBos };

const states: readonly Case[] = [
  ['a state with another magic', /state file: bad magic/, fields([0, 0])],
  ['a state of version 2', /state file: version 2/, fields([8, 2])],
  ['a state with another header size', /bad header size/, fields([12, 64])],
  ['a state with a required feature', /required features 1/, fields([16, 1, 8])],
  ['a state with reserved bytes', /reserved header bytes/, fields([84, 1])],
  ['a state that says another size', /another length than its header/, fields([32, 128, 8])],
  ['a state of 2^64 - 1 bytes', /another length than its header/, fields([32, 2n ** 64n - 1n, 8])],
  ['a state of another process', /process is 7, the manifest says 0/, fields([40, 7])],
  ['a state of another pid', /pid in its namespace is 8/, fields([44, 8])],
  ['a state with another number of objects', /number of objects is 3/, fields([48, 3])],
  ['more devices than bytes', /counts do not add up/, fields([52, 0xffffffff])],
  ['more BOs than bytes', /counts do not add up/, fields([56, 0xffffffff])],
  ['more mappings than bytes', /counts do not add up/, fields([60, 0xffffffff])],
  [
    'private data of 2^64 - 1 bytes',
    /bad size of the private data/,
    fields([64, 2n ** 64n - 1n, 8]),
  ],
  ['private data that takes the room of BOs', /counts do not add up/, fields([64, 48, 8])],
  ['devices of another size', /bad record size/, fields([72, 8])],
  ['BOs of no bytes', /bad record size/, fields([76, 0])],
  ['a device with a descriptor', /device with a descriptor/, fields([deviceAt + 8, 3])],
  ['a BO with a descriptor', /BO with a descriptor/, fields([boAt + 40, 3])],
  ['a BO of 2^60 bytes', /BO larger than any memory/, fields([boAt + 8, 2n ** 60n, 8])],
  ['a BO of another size than its buffer', /BO 0 is vram of 4096/, fields([boAt + 8, 4096, 8])],
  ['a BO of another kind than its buffer', /BO 0 is gtt/, fields([boAt + 36, 2])],
  ['a BO with contents that has no buffer', /BO 3 has contents/, fields([boAt + 3 * 48 + 36, 1])],
  ['a buffer whose BO has no contents', /BOs with contents are 3/, fields([boAt + 36, 8])],
  ['one BO less', /BO 3 is vram|number of BOs is 4/, other({ devices, bos: kfdBos.slice(0, 3) })],
  ['one BO more', /number of BOs is 6|BO 4/, other({ devices, bos: [...kfdBos, kfdBos[3]] })],
  ['257 devices', /too many records/, other({ bos: kfdBos, devices: Array(257).fill([1, 1]) })],
  [
    'mappings that overlap',
    /overlap/,
    other({
      ...whole,
      vmas: [
        [4096, 16384],
        [8192, 20480],
      ],
    }),
  ],
  [
    'mappings out of order',
    /out of order/,
    other({
      ...whole,
      vmas: [
        [16384, 20480],
        [4096, 8192],
      ],
    }),
  ],
  ['an empty mapping', /empty mapping/, other({ ...whole, vmas: [[4096, 4096]] })],
  [
    'a mapping that ends before it begins',
    /empty mapping/,
    other({ ...whole, vmas: [[8192, 4096]] }),
  ],
  ['a mapping of half a page', /not of whole pages/, other({ ...whole, vmas: [[4096, 6000]] })],
  ['a state without a byte', /too short/, changed(names.state, () => Buffer.alloc(0))],
  ['a state of 127 bytes', /too short/, changed(names.state, (file) => file.subarray(0, 127))],
  [
    'a state without its last byte',
    /another length/,
    changed(names.state, (file) => file.subarray(0, -1)),
  ],
  [
    'a state with one byte more',
    /another length/,
    changed(names.state, (file) => Buffer.concat([file, Buffer.of(0)])),
  ],
  [
    'a state with one changed bit',
    /checksum differs/,
    changed(names.state, (file) => flipped(file, 200)),
  ],
  [
    'a render state in place of a state',
    /bad magic/,
    changed(names.state, () => renderStateFile({})),
  ],
  [
    'a state that is not the one of the manifest',
    /sha256 is [0-9a-f]{64}, the manifest says/,
    ({ files }) => void files.set(names.state, stateFile({ ...whole, nsPid: 8 })),
  ],
];

function flipped(file: Buffer, at: number): Buffer {
  file[at] = (file[at] ?? 0) ^ 1;
  return file;
}

const renderStates: readonly Case[] = [
  ['a render state with another magic', /render state file: bad magic/, render([0, 0])],
  ['a render state of version 9', /version 9/, render([8, 9])],
  ['more handles than bytes', /counts do not add up/, render([44, 0xffffffff])],
  ['more mappings of handles than bytes', /counts do not add up/, render([48, 0xffffffff])],
  ['more rings than bytes', /counts do not add up/, render([60, 0xffffffff])],
  ['handles of another size', /bad record size/, render([68, 47])],
  ['handle 0', /handles out of order or range/, otherRender({ bos: [{ handle: 0, size: 4096 }] })],
  [
    'handle 2^31 - 1',
    /handles out of order or range/,
    otherRender({ bos: [{ handle: 0x7fffffff, size: 4096 }] }),
  ],
  ['one handle twice', /handles out of order or range/, otherRender({ bos: [renderBo, renderBo] })],
  ['a handle of no bytes', /not of whole pages/, otherRender({ bos: [{ handle: 3, size: 0 }] })],
  ['a handle of 100 bytes', /not of whole pages/, otherRender({ bos: [{ handle: 3, size: 100 }] })],
  [
    'a handle of 2^52 bytes',
    /larger than any memory/,
    otherRender({ bos: [{ handle: 3, size: 2 ** 52 }] }),
  ],
  [
    'a handle of another size than its buffer',
    /BO 4 is vram of 8192/,
    otherRender({ bos: [{ handle: 3, size: 8192 }] }),
  ],
  ['a handle of a BO that is not there', /BOs with contents are 3/, render([128 + 4, 99])],
  ['context 0', /contexts out of order/, otherRender({ bos: [renderBo], contexts: [0] })],
  [
    'one context twice',
    /contexts out of order/,
    otherRender({ bos: [renderBo], contexts: [1, 1] }),
  ],
  ['context 4096', /contexts out of order/, otherRender({ bos: [renderBo], contexts: [4096] })],
  ['BO list 65,537', /BO lists out of order/, otherRender({ bos: [renderBo], boLists: [65_537] })],
  ['a render state without a byte', /too short/, changed(names.render, () => Buffer.alloc(0))],
];

/** Files of records that take many times their room in an archive. */
const large: readonly HostileInput[] = [
  ...(['verify', 'inspect'] as const).map(
    (verb): HostileInput => ({
      name: 'a state of 6 million BOs in some kB',
      verb,
      args: async (dir) => [
        await bentArchive(dir, replaced(names.state, manyBos(6_000_000)), { level: 1 }),
      ],
      // inspect shows what can be read.
      ...(verb === 'verify'
        ? { status: 5, code: 'E_IMAGE_CORRUPT', says: /too many records/ }
        : { status: 0 }),
    }),
  ),
  {
    name: 'a state of 300 MiB of zeros in some kB',
    verb: 'verify',
    args: async (dir) => [
      await bentArchive(
        dir,
        changed(names.state, () => Buffer.alloc(300 << 20)),
        { level: 1 },
      ),
    ],
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    says: /kfd-state-0\.img: state file: bad magic/,
  },
  {
    name: '500,000 events of a process',
    verb: 'inspect',
    args: async (dir) => [await bentArchive(dir, events(500_000), { level: 1 })],
    status: 0,
    says: /500000/,
  },
];

/** The header says so, and so does the size. Nothing else is right. */
function manyBos(count: number): Buffer {
  const file = Buffer.alloc(128 + 48 * count + 8);
  stateFile({}).copy(file, 0, 0, 128);
  file.writeUInt32LE(count, 56);
  file.writeBigUInt64LE(BigInt(file.length), 32);
  return file;
}

/** Events in KFD's private data: 64 bytes each, with the type 1. */
function events(count: number): Bend {
  return (parts) => {
    const before = 8 + 8 * devices.length + 272 * kfdBos.length;
    const priv = Buffer.alloc(before + 64 * count);
    for (let i = 0; i < count; i++) priv.writeUInt32LE(1, before + 64 * i);
    parts.files.set(names.state, stateFile({ ...whole, objects: count, priv }));
    Object.assign(parts.manifest.processes[0] as object, { num_objects: count });
    describeFiles(parts);
  };
}

export const state: readonly HostileInput[] = [
  ...refused('verify', [...states, ...renderStates]),
  ...large,
];
