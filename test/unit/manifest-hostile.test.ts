import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { KfdError } from '../../src/errors.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { inconsistencies } from '../../src/manifest/consistency.js';
import { scanFault } from '../../src/manifest/scan.js';
import { manifestLimits } from '../../src/manifest/schema.js';
import { shapeFaults } from '../../src/manifest/shape.js';
import { sampleManifest } from './manifest-sample.js';
import { problemsOf, sealedText } from './manifest-sealed.js';
import { temporaryFolder } from './paths.js';

function refusal(bytes: Buffer): string {
  try {
    decodeManifest(bytes);
  } catch (error) {
    assert.ok(error instanceof KfdError, String(error));
    assert.equal(error.code, 'E_IMAGE_CORRUPT');
    return error.message;
  }
  throw new Error('the manifest was accepted');
}

/** The sealed sample, with its text changed. */
function bent(change: (text: string) => string): Buffer {
  const text = sealedText(sampleManifest());
  const changed = change(text);
  assert.notEqual(changed, text);
  return Buffer.from(changed);
}

/** The megabytes that decoding `text` takes at most, in a process of its own with a small heap. */
async function peakOf(t: TestContext, text: string): Promise<number> {
  const path = join(await temporaryFolder(t), 'manifest');
  await writeFile(path, text);
  const codec = new URL('../../src/manifest/codec.js', import.meta.url).href;
  const program = `
    const { decodeManifest } = await import(${JSON.stringify(codec)});
    const { readFileSync } = await import('node:fs');
    try { decodeManifest(readFileSync(${JSON.stringify(path)})); }
    catch (error) { if (error.code === 'E_IMAGE_CORRUPT') console.log(process.resourceUsage().maxRSS); }`;
  const node = ['--max-old-space-size=256', '--input-type=module', '-e', program];
  const { status, stdout, stderr } = spawnSync(process.execPath, node, { encoding: 'utf8' });
  assert.equal(status, 0, stderr.slice(0, 300));
  return Number(stdout) / 1024;
}

test('a member that comes twice is refused, also deep inside and in another spelling', () => {
  const twice = /is there twice in one object/;
  assert.match(refusal(bent((text) => text.replace('{', '{"schema_version":1,'))), twice);
  assert.match(refusal(bent((text) => text.replace('"pid":', '"pid":4711,"pid":'))), twice);
  assert.match(refusal(bent((text) => text.replace('"pid":', '"p\\u0069d":4711,"pid":'))), twice);
});

test('names that every object has are unknown members', () => {
  for (const name of [
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    '\\u005f_proto__',
  ]) {
    const inside = bent((text) => text.replace('"pid":', `"${name}":{"x":1},"pid":`));
    assert.match(refusal(inside), /unknown member/, name);
    const document = JSON.parse(`{"${name}":1}`) as object;
    assert.match(problemsOf({ ...sampleManifest(), ...document }).join(), /unknown member/, name);
  }
});

test('bytes that are no UTF-8 are refused, in whatever place', () => {
  const bytes = bent((text) => text.replace('"worker"', '"work\u00e9r"'));
  const at = bytes.indexOf('work') + 4;
  bytes[at] = 0xff;
  assert.match(refusal(bytes), /not UTF-8/);
  const overlong = bent((text) => text.replace('"worker"', '"XXrker"'));
  overlong.set([0xc0, 0xaf], overlong.indexOf('XXrker'));
  assert.match(refusal(overlong), /not UTF-8/);
  assert.match(refusal(Buffer.from(`\ufeff${sealedText(sampleManifest())}`)), /not complete JSON/);
});

test('a file has one name: ordinals have no leading zeros', () => {
  for (const name of ['kfd-state-00.img', 'render-state-007.img', 'amdgpu-pages-00-0000.img']) {
    const bad = sampleManifest();
    Object.assign(bad.files[1] as object, { name });
    assert.match(problemsOf(bad).join(), /files\.1\.name: not the name of a state or pages/, name);
  }
});

test('a manifest above its limit is not parsed', () => {
  const padding = ' '.repeat(manifestLimits.fileBytes);
  assert.match(
    refusal(Buffer.from(padding + sealedText(sampleManifest()))),
    /larger than 67108864/,
  );
});

test('lists and documents are bounded before they are objects', async (t) => {
  const list = (member: string, item: string, count: number) =>
    `{"schema_version":1,"${member}":[${Array(count).fill(item).join(',')}]}`;
  const cases: readonly [string, string][] = [
    ['empty buffers', list('buffers', '{}', 1_500_000)],
    ['numbers for buffers', list('buffers', '1', 2_000_000)],
    ['as many empty buffers as there may be', list('buffers', '{}', manifestLimits.buffers)],
    ['lists for files', list('files', '[]', 3_000_000)],
    ['unknown members', list('buffers', '{"a":1,"b":2}', 400_000)],
    ['depth', '['.repeat(4 << 20)],
    ['names', `{${Array.from({ length: 300_000 }, (_, i) => `"n${i}":0`).join(',')}}`],
    ['contradictions', sealedText({ ...sampleManifest(), shares: manyShares(300_000) })],
  ];
  for (const [name, text] of cases) {
    assert.ok((await peakOf(t, text)) < 400, name);
  }
});

function manyShares(count: number): object[] {
  return Array.from({ length: count }, () => ({ process: 3, bo_index: 99, buffer: 77 }));
}

test('the bounds of a document are exact', () => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  assert.equal(scanFault(nested(8)), undefined);
  assert.match(scanFault(nested(9)) ?? '', /deeper than 8 levels/);
  const lists = (count: number) => `[${'[],'.repeat(count - 2)}[]]`;
  assert.equal(scanFault(lists(2_000_000)), undefined);
  assert.match(scanFault(lists(2_000_001)) ?? '', /more than 2000000 objects and arrays/);
  const zeros = (count: number) => `[${'0,'.repeat(count - 1)}0]`;
  assert.equal(scanFault(zeros(8_000_000)), undefined);
  assert.match(scanFault(zeros(8_000_001)) ?? '', /more than 8000000 values/);
  const named = (count: number) =>
    `{${Array.from({ length: count }, (_, i) => `"n${i}":0`).join()}}`;
  assert.equal(scanFault(named(4096)), undefined);
  assert.match(scanFault(named(4097)) ?? '', /more than 4096 names/);
  const long = (letters: number) => `{"${'n'.repeat(letters)}":0}`;
  assert.equal(scanFault(long(64)), undefined);
  assert.equal(scanFault(long(65)), `${'n'.repeat(64)}: unknown member`);
  // One name in two objects, and one value, are no repetition.
  assert.equal(scanFault('[{"a":1},{"a":1}]'), undefined);
});

test('problems are counted to a bound, and a fault names its member', () => {
  const manifest = { ...sampleManifest(), shares: manyShares(1000) } as never;
  assert.equal(inconsistencies(manifest, 7).length, 7);
  const { gpus: _, ...without } = sampleManifest();
  assert.match(problemsOf(without).join(), /^gpus: /);
});

test('a member has one fault, and BOs of two processes with the same large index are two', () => {
  assert.equal(shapeFaults({ ...sampleManifest(), gpus: [1, 2] }).length, 1);
  const shares = [0, 1, 4095].map((process) => ({ process, bo_index: 2 ** 32 - 2, buffer: 0 }));
  const found = inconsistencies({ ...sampleManifest(), shares }, 100).join();
  assert.match(found, /there is no process 4095/);
  assert.doesNotMatch(found, /the same BO twice/);
});

test('contradictions of card nodes, GPUs of files and names of states are found', () => {
  const cases: [RegExp, (manifest: ReturnType<typeof sampleManifest>) => void][] = [
    [/devices\.assigned\.0\.card_minor: its GPU has none/, ({ devices }) => assign(devices, 5, 5)],
    [
      /devices\.assigned\.1\.card_minor: 5 is taken twice/,
      ({ devices, gpus }) => {
        for (const gpu of gpus) Object.assign(gpu, { card_minor: gpu.ordinal });
        assign(devices, 5, 5);
      },
    ],
    [
      /ext_files\.1\.gpu: there is no GPU 2/,
      (m) => Object.assign(m.ext_files[1] as object, { gpu: 2 }),
    ],
    [/processes\.0\.gpus: there is no GPU 2/, (m) => m.processes[0]?.gpus.push(2)],
    [
      /processes\.0\.state_file: kfd-state-1\.img is not the state of process 0/,
      (m) => Object.assign(m.processes[0] as object, { state_file: 'kfd-state-1.img' }),
    ],
    [
      /buffers\.0\.pages_file: .* belongs to another process or GPU/,
      (m) => Object.assign(m.buffers[0] as object, { pages_file: 'amdgpu-pages-1-0000.img' }),
    ],
    [
      /buffers\.0\.pages_file: kfd-state-0\.img belongs to another process or GPU/,
      (m) => Object.assign(m.buffers[0] as object, { pages_file: 'kfd-state-0.img' }),
    ],
  ];
  for (const [expected, bend] of cases) {
    const manifest = sampleManifest();
    bend(manifest);
    assert.match(problemsOf(manifest).join('\n'), expected);
  }
  const sound = sampleManifest();
  for (const gpu of sound.gpus) Object.assign(gpu, { card_minor: gpu.ordinal });
  assign(sound.devices, 5, 6);
  assert.deepEqual(problemsOf(sound), []);
});

function assign(devices: object, ...cards: readonly number[]): void {
  const assigned = cards.map((card, gpu) => ({ gpu, render_minor: 128 + gpu, card_minor: card }));
  Object.assign(devices, { assigned });
}
