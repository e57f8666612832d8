import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { rewriteNodes, tmpfsImagePattern } from '../../src/archive/device-nodes.js';
import { rewriteConfig, rewriteSpec } from '../../src/archive/device-rules.js';
import { relocate, type Source } from '../../src/archive/relocate.js';
import { decodeTarHeader } from '../../src/archive/tar-header.js';
import { KfdError } from '../../src/errors.js';
import { placeAsIs, placeOnHost } from '../../src/gpu/compare.js';
import type { DeviceMove } from '../../src/gpu/device-numbers.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';
import { randomFrom } from './random.js';
import { mutated, type RawEntry, rawTar } from './raw-tar.js';

const node = (name: string, major: number, minor: number): RawEntry => ({
  name,
  type: '3',
  major,
  minor,
});
const move = (
  gpu: number | undefined,
  from: [number, number],
  to: [number, number],
): DeviceMove => ({
  what: gpu === undefined ? '/dev/kfd' : `gpu ${gpu}`,
  from: { major: from[0], minor: from[1] },
  to: { major: to[0], minor: to[1] },
  ...(gpu !== undefined && { gpu }),
});

/** "name major:minor" of every device, and the names of all else. */
function listed(tar: Buffer): string[] {
  const lines: string[] = [];
  for (let at = 0; ; ) {
    const header = decodeTarHeader(tar.subarray(at, at + 512));
    if (header === undefined) return lines;
    const { name, type, devMajor, devMinor, size } = header;
    lines.push(type === '3' ? `${name} ${devMajor}:${devMinor}` : name);
    at += 512 + Math.ceil(size / 512) * 512;
  }
}

const dev = rawTar([
  { name: './', type: '5' },
  node('./null', 1, 3),
  { name: './dri/', type: '5' },
  node('./dri/renderD128', 226, 128),
  node('./kfd', 244, 0),
  { name: './note', data: Buffer.from('text') },
]);

test('nodes of moved devices get the new number; a render node also the name that goes with it', () => {
  const { tar, found } = rewriteNodes(dev, [
    move(undefined, [244, 0], [511, 0]),
    move(0, [226, 128], [226, 130]),
  ]);
  assert.equal(found.size, 2);
  assert.deepEqual(listed(tar), [
    './',
    './null 1:3',
    './dri/',
    './dri/renderD130 226:130',
    './dri/renderD128 226:130',
    './kfd 511:0',
    './note',
  ]);
});

test('what has not moved stays byte for byte', () => {
  const { tar, found } = rewriteNodes(dev, [move(0, [226, 129], [226, 130])]);
  assert.equal(tar, dev);
  assert.equal(found.size, 0);
  const back = rewriteNodes(rewriteNodes(dev, [move(undefined, [244, 0], [511, 0])]).tar, [
    move(undefined, [511, 0], [244, 0]),
  ]);
  assert.deepEqual(back.tar, dev);
});

test('GPUs that change places change names, and no name has two nodes', () => {
  const two = rawTar([node('./dri/renderD128', 226, 128), node('./dri/renderD129', 226, 129)]);
  const swapped = rewriteNodes(two, [
    move(0, [226, 128], [226, 129]),
    move(1, [226, 129], [226, 128]),
  ]);
  assert.deepEqual(listed(swapped.tar), ['./dri/renderD129 226:129', './dri/renderD128 226:128']);
  const shifted = rewriteNodes(two, [
    move(0, [226, 128], [226, 129]),
    move(1, [226, 129], [226, 130]),
  ]);
  assert.deepEqual(listed(shifted.tar), [
    './dri/renderD129 226:129',
    './dri/renderD128 226:129',
    './dri/renderD130 226:130',
  ]);
  // One that stays where a GPU that no process saw was: that one gives way.
  const unseen = rewriteNodes(two, [move(0, [226, 128], [226, 129])]);
  assert.deepEqual(listed(unseen.tar), ['./dri/renderD129 226:129', './dri/renderD128 226:129']);
});

test('a chain of moves ends with one node of the right name, and old names that lead to it', () => {
  const steps = [130, 129, 128];
  let tar = rawTar([node('./dri/renderD128', 226, 128)]);
  let minor = 128;
  for (const next of steps) {
    tar = rewriteNodes(tar, [move(0, [226, minor], [226, next])]).tar;
    minor = next;
    const names = listed(tar);
    assert.ok(names.includes(`./dri/renderD${next} 226:${next}`));
    assert.equal(new Set(names.map((line) => line.split(' ')[0])).size, names.length);
    assert.ok(
      names.every((line) => line.endsWith(` 226:${next}`)),
      names.join(),
    );
  }
});

test('extensions of an entry go with it, and a name from one is left alone', () => {
  const pax = (text: string) => Buffer.from(`${text.length + 4} ${text}\n`);
  const tar = rawTar([
    { name: 'x', type: 'x', data: pax('mtime=1.5') },
    node('./dri/renderD128', 226, 128),
    { name: 'L', type: 'L', data: Buffer.from('./dri/renderD128-long\0') },
    node('./dri/renderD128', 226, 128),
  ]);
  const { tar: rewritten } = rewriteNodes(tar, [move(0, [226, 128], [226, 130])]);
  assert.deepEqual(listed(rewritten), [
    'x',
    './dri/renderD130 226:130',
    'x',
    './dri/renderD128 226:130',
    'L',
    './dri/renderD128 226:130',
  ]);
});

test('what GNU tar makes of a folder with holes in its files passes through', () => {
  const folder = execFileSync('mktemp', ['-d'], { encoding: 'utf8' }).trim();
  try {
    for (let i = 0; i < 30; i++) {
      execFileSync('dd', [
        'if=/dev/urandom',
        `of=${folder}/holes`,
        'bs=4096',
        'count=1',
        `seek=${i * 8}`,
        'conv=notrunc',
        'status=none',
      ]);
    }
    execFileSync('truncate', ['-s', '4M', `${folder}/holes`]);
    for (const format of ['oldgnu', 'gnu', 'posix']) {
      const tar = execFileSync('tar', ['-C', folder, '--sparse', `--format=${format}`, '-c', '.'], {
        maxBuffer: 1 << 26,
      });
      const end = tar.length - 1024 - (tar.length % 512);
      assert.ok(tar.includes('GNU') || format !== 'posix' || end > 0);
      const device = rawTar([node('./kfd', 244, 0)]).subarray(0, 512);
      const both = Buffer.concat([device, tar]);
      const { tar: rewritten, found } = rewriteNodes(both, [move(undefined, [244, 0], [10, 0])]);
      assert.equal(found.size, 1, format);
      assert.deepEqual(rewritten.subarray(512), tar, format);
    }
  } finally {
    execFileSync('rm', ['-r', folder]);
  }
});

test('rules, devices, paths and annotations of the documents follow; all else is as it was', () => {
  const moves = [move(undefined, [244, 0], [511, 0]), move(0, [226, 128], [226, 130])];
  const linux =
    '{"x":18446744073709551615,"devices":[{"path":"/dev/kfd","type":"c","major":244,"minor":0,"fileMode":8630},' +
    '{"path":"/dev/dri/renderD128","type":"c","major":226,"minor":128},{"path":"/dev/sda","type":"b","major":244,"minor":0}],' +
    '"resources":{"devices":[{"allow":false,"access":"rwm"},{"allow":true,"type":"c","major":226,"minor":128,"access":"rwm"},' +
    '{"allow":true,"type":"c","major":244,"access":"r"},{"allow":true,"type":"b","major":226,"minor":128}],"pids":{"limit":9007199254740993}}}';
  const spec = `{ "annotations": {"io.kfd-checkpoint.kfd-device":"244:0","a":"b"},\n "linux": ${linux} }`;
  const annotations = { 'io.kfd-checkpoint.kfd-device': '511:0', 'io.kfd-checkpoint.gpus': '[]' };
  const changed = rewriteSpec(spec, moves, annotations);
  assert.equal(
    changed,
    spec
      .replace('"kfd-device":"244:0"', '"kfd-device":"511:0"')
      .replace('kfd-checkpoint.kfd-device":"244:0"', 'kfd-checkpoint.kfd-device":"511:0"')
      .replace('/dev/kfd","type":"c","major":244', '/dev/kfd","type":"c","major":511')
      .replace(
        'renderD128","type":"c","major":226,"minor":128',
        'renderD130","type":"c","major":226,"minor":130',
      )
      .replace('"c","major":226,"minor":128,"access"', '"c","major":226,"minor":130,"access"')
      .replace('"major":244,"access":"r"', '"major":511,"access":"r"'),
  );
  const config = `{"spec":${spec},"device_host_src":[{"path":"/dev/kfd","major":0},{"path":"/dev/dri/renderD128"}],"id":"x"}`;
  assert.equal(
    rewriteConfig(config, moves, annotations),
    `{"spec":${changed},"device_host_src":[{"path":"/dev/kfd","major":0},{"path":"/dev/dri/renderD130"}],"id":"x"}`,
  );
  for (const text of ['{}', '{"linux":{}}', '{"linux":null}', '{"linux":{"devices":null}}']) {
    assert.equal(rewriteSpec(text, moves, annotations), text);
  }
  for (const text of [
    '{"linux":{"devices":{}}}',
    '{"linux":{"devices":[1]}}',
    '{"linux":1,"linux":2}',
  ]) {
    assert.throws(() => rewriteSpec(text, moves, annotations), { code: 'E_IMAGE_CORRUPT' }, text);
  }
});

const source = (tmpfs: Record<string, Buffer>): Source => ({
  manifest: sampleManifest(),
  config: '{}',
  spec: '{}',
  tmpfs: new Map(Object.entries(tmpfs)),
});
const target = { ...hostWith({}, {}), kfdDevice: { major: 511, minor: 0 } };
const recordedDev = rawTar([
  node('./kfd', 234, 0),
  node('./dri/renderD128', 226, 128),
  node('./dri/renderD129', 226, 129),
]);

test('a relocated image fits the host it was made for, as it is', async () => {
  const placement = placeOnHost(sampleManifest(), target);
  const image = 'checkpoint/tmpfs-dev-38.tar.gz.img';
  const other = 'checkpoint/tmpfs-dev-41.tar.gz.img';
  const replaced = await relocate(
    source({ [image]: gzipSync(recordedDev), [other]: gzipSync(rawTar([{ name: './' }])) }),
    placement,
    target,
  );
  assert.deepEqual([...replaced.keys()].sort(), [
    'checkpoint/kfd-manifest.json',
    image,
    'config.dump',
    'spec.dump',
  ]);
  assert.deepEqual(listed(gunzipSync(replaced.get(image) ?? '')), [
    './kfd 511:0',
    './dri/renderD140 226:140',
    './dri/renderD128 226:140',
    './dri/renderD141 226:141',
    './dri/renderD129 226:141',
  ]);
  const manifest = decodeManifest(String(replaced.get('checkpoint/kfd-manifest.json')));
  const { devices: _, ...rest } = manifest;
  const { devices: __, ...was } = sampleManifest();
  assert.deepEqual(rest, was);
  assert.deepEqual(placeAsIs(manifest, target).mismatches, []);
  // And it can be made to fit another host, or the first again.
  const third = {
    ...hostWith({ render_minor: 128 }, { render_minor: 129 }),
    kfdDevice: { major: 234, minor: 0 },
  };
  const back = await relocate(
    { ...source({ [image]: replaced.get(image) ?? Buffer.alloc(0) }), manifest },
    placeOnHost(manifest, third),
    third,
  );
  assert.deepEqual(
    listed(gunzipSync(back.get(image) ?? '')).filter((line) => /12[89] |kfd/.test(line)),
    ['./kfd 234:0', './dri/renderD128 226:128', './dri/renderD129 226:129'],
  );
});

test('a device whose node is nowhere is refused by name', async () => {
  const placement = placeOnHost(sampleManifest(), target);
  await assert.rejects(relocate(source({}), placement, target), {
    code: 'E_UNSUPPORTED_STATE',
    message: /^\/dev\/kfd: no image of a tmpfs in the archive has its node 234:0$/,
  });
});

test('an image that unpacks to far more than /dev is not taken for it; a damaged one is damaged', async () => {
  const placement = placeOnHost(sampleManifest(), target);
  const bomb = gzipSync(Buffer.alloc(100 << 20), { level: 1 });
  await assert.rejects(relocate(source({ a: bomb }), placement, target), {
    code: 'E_UNSUPPORTED_STATE',
  });
  for (const image of [
    Buffer.from('hello'),
    gzipSync(recordedDev).subarray(0, 60),
    gzipSync(recordedDev.subarray(0, 700)),
    gzipSync(Buffer.alloc(0)),
  ]) {
    await assert.rejects(relocate(source({ a: image }), placement, target), {
      code: 'E_IMAGE_CORRUPT',
    });
  }
});

test('only names of tmpfs images are taken for one', () => {
  assert.ok(tmpfsImagePattern.test('tmpfs-dev-38.tar.gz.img'));
  for (const name of [
    'tmpfs-38.tar.gz.img',
    'tmpfs-dev-38.img',
    'x/tmpfs-dev-38.tar.gz.img',
    'tmpfs-dev-.tar.gz.img',
  ]) {
    assert.ok(!tmpfsImagePattern.test(name), name);
  }
});

test('mutated images end in a reason or in a tar file with every other byte kept', () => {
  const random = randomFrom(99);
  const moves = [move(undefined, [244, 0], [511, 0]), move(0, [226, 128], [226, 130])];
  const seed = rawTar([
    { name: 'x', type: 'x', data: Buffer.from('13 mtime=1.5\n') },
    node('./dri/renderD128', 226, 128),
    { name: 'L', type: 'L', data: Buffer.from(`${'l'.repeat(150)}\0`) },
    { name: 'short', data: Buffer.alloc(600, 3) },
    node('./kfd', 244, 0),
    node('./dri/renderD130', 226, 130),
  ]);
  let sound = 0;
  for (let round = 0; round < 4000; round++) {
    const bytes = mutated(seed, random);
    const cut = random(4) === 0 ? bytes.subarray(0, random(bytes.length)) : bytes;
    try {
      const { tar } = rewriteNodes(cut, moves);
      // Read again, nothing is left to move and nothing changes.
      const again = rewriteNodes(tar, moves);
      assert.equal(again.tar, tar);
      assert.ok(tar.length <= cut.length + 3 * 2048);
      sound += 1;
    } catch (error) {
      assert.ok(error instanceof KfdError && error.code === 'E_IMAGE_CORRUPT', String(error));
    }
  }
  assert.ok(sound > 100, `${sound} were sound: the mutations reach nothing`);
});
