/** Archives whose pages files take contents from each other: what is not there is found. */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { verifyCheckpoint } from '../../src/archive/verify.js';
import { decodeManifest, encodeManifest } from '../../src/manifest/codec.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { native } from '../../src/native.js';
import { checkSiblings } from '../../src/session/buffers/siblings.js';
import { archive, entriesOf, type Files, tarOf } from './archive-builder.js';
import { cli } from './cli-context.js';
import {
  type Contents,
  checkpoint,
  frame,
  names,
  noise,
  services,
  walk,
} from './drained-archive.js';
import { temporaryFolder } from './paths.js';

const weights = noise(2 * frame, 1);
/** The second GPU has the second frame of the first one. */
const replicas: Contents = [weights, noise(4096, 2), weights.subarray(frame)];
const manifestEntry = 'checkpoint/kfd-manifest.json';

function bent(files: Files, bend: (manifest: Manifest) => void): Files {
  const manifest = decodeManifest(Buffer.from(files[manifestEntry]?.toString() ?? ''));
  bend(manifest);
  return { ...files, [manifestEntry]: encodeManifest(manifest) };
}

async function problemsOf(t: TestContext, files: Files): Promise<string[]> {
  const report = await verifyCheckpoint(await archive(t, files), {
    ...walk,
    verifier: services.verifier(),
  });
  return [
    ...report.problems,
    ...report.files.flatMap(({ name, problems }) => problems.map((one) => `${name}: ${one}`)),
  ];
}

test('verify shows what files take from each other, in whatever order they come', async (t) => {
  const files = await checkpoint(t, replicas);
  assert.ok((files[`checkpoint/${names[1]}`]?.length ?? frame) < 10_000);
  const entries = entriesOf(files);
  for (const order of [entries, [...entries].reverse()]) {
    const path = join(await temporaryFolder(t), 'job.tar');
    await writeFile(path, await tarOf(order));
    const { code, stdout } = await cli(['verify', '--quiet', path], { native: services });
    assert.equal(code, 0, stdout);
    assert.match(stdout, /FILE +SIZE +FRAMES +IN PARENT +IN OTHER FILES +STATUS/);
    assert.match(stdout, /amdgpu-pages-0-0000\.img +\S+ \S+ +3 +0 +0 +ok/);
    assert.match(stdout, /amdgpu-pages-0-0001\.img +\S+ \S+ +1 +0 +1 +ok/);
    const json = await cli(['verify', '--quiet', '--format', 'json', path], { native: services });
    const [, , second] = JSON.parse(json.stdout).files;
    assert.deepEqual([second.name, second.siblings], [names[1], 1]);
  }
});

test('verify refuses contents that the other file has not', async (t) => {
  const files = await checkpoint(t, replicas);
  const others = await checkpoint(t, [noise(2 * frame, 5), noise(4096, 2), noise(frame, 6)]);
  // A file of another checkpoint that is sound, and that the manifest knows.
  const first = `checkpoint/${names[0]}`;
  const swapped = bent({ ...files, [first]: others[first] ?? '' }, (manifest) => {
    const known = decodeManifest(Buffer.from(others[manifestEntry]?.toString() ?? ''));
    manifest.files = manifest.files.map((file) =>
      file.name === names[0] ? (known.files.find(({ name }) => name === names[0]) ?? file) : file,
    );
  });
  assert.deepEqual(await problemsOf(t, swapped), [
    `${names[1]}: refers to frame 1 of ${names[0]}: is another content`,
  ]);
  const { [first]: _, ...without } = files;
  assert.deepEqual(await problemsOf(t, without), [
    `${names[0]}: missing`,
    `${names[1]}: refers to frame 1 of ${names[0]}: that file is missing or not sound`,
  ]);
  const damaged = Buffer.from(files[first] ?? '');
  const at = damaged.indexOf(weights.subarray(0, 64));
  damaged.writeUInt8(damaged.readUInt8(at) ^ 1, at);
  const found = await problemsOf(t, { ...files, [first]: damaged });
  assert.equal(found.length, 2);
  assert.match(found[0] ?? '', /^amdgpu-pages-0-0000\.img: .*frame 0/);
  assert.match(found[1] ?? '', /missing or not sound$/);
  // Also what was never sealed.
  const { [manifestEntry]: __, ...unsealed } = without;
  assert.match((await problemsOf(t, unsealed)).join(), /missing or not sound/);
  const result = await cli(['verify', '--quiet', await archive(t, swapped)], { native: services });
  assert.equal(result.code, 5);
});

test('objects of the addon are told apart', () => {
  const { PagesCheck, SiblingCheck, ImageFrames, flattenPages } = native();
  assert.throws(() => new PagesCheck(undefined, new ImageFrames() as never), TypeError);
  assert.throws(() => flattenPages([], 'x', new SiblingCheck()), TypeError);
  assert.throws(() => new SiblingCheck().addFile('/nowhere'), { code: 'KFD_IO' });
  assert.deepEqual(new SiblingCheck().problems(), []);
});

test('before a seal and a restore all files are looked at, if one refers to another', (t) => {
  const looked: string[] = [];
  let found: object[] = [];
  t.mock.method(native(), 'SiblingCheck', function SiblingCheck() {
    return { addFile: (path: string) => void looked.push(path), problems: () => found };
  } as never);
  const files = (...siblings: number[]) =>
    siblings.map((count, i) => ({ name: `file-${i}`, summary: { siblings: count } }));
  checkSiblings('/image', files(0, 0));
  assert.deepEqual(looked, [], 'nothing refers to anything');
  checkSiblings('/image', files(0, 3));
  assert.deepEqual(looked, ['/image/file-0', '/image/file-1']);
  const problem = (gpu: number) => ({ process: 1, gpu, reason: `reason ${gpu}` });
  const line = (gpu: number) => `amdgpu-pages-1-000${gpu}.img: reason ${gpu}`;
  const five = [0, 1, 2, 3, 4];
  for (const [count, message] of [
    [1, line(0)],
    [5, five.map(line).join('; ')],
    [7, `${five.map(line).join('; ')}; and 2 more`],
  ] as const) {
    found = Array.from({ length: count }, (_, gpu) => problem(gpu));
    const details = { problems: Array.from({ length: count }, (_, gpu) => line(gpu)) };
    const hint = /use another copy$/;
    assert.throws(() => checkSiblings('/image', files(1)), {
      ...{ code: 'E_IMAGE_CORRUPT', message, hint, details },
    });
  }
});
