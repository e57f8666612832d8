import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { rewriteConfig, rewriteSpec } from '../../src/archive/device-rules.js';
import { relocate, type Source, tmpfsCollector } from '../../src/archive/relocate.js';
import { placeAsIs, placeOnHost } from '../../src/gpu/compare.js';
import { deviceMoves } from '../../src/gpu/device-numbers.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { documentChanges, listed, move, noCdi, node } from './device-moves.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';
import { type RawEntry, rawTar } from './raw-tar.js';

test('rules, devices, paths and annotations of the documents follow; all else is as it was', () => {
  const moves = [move(undefined, [244, 0], [511, 0]), move(0, [226, 128], [226, 130])];
  const linux =
    '{"x":18446744073709551615,"devices":[{"path":"/dev/kfd","type":"c","major":244,"minor":0,"fileMode":8630},' +
    '{"path":"/dev/dri/renderD128","type":"c","major":226,"minor":128},' +
    '{"path":"/dev/sda","type":"b","major":244,"minor":0}],' +
    '"resources":{"devices":[{"allow":false,"access":"rwm"},' +
    '{"allow":true,"type":"c","major":226,"minor":128,"access":"rwm"},' +
    '{"allow":true,"type":"c","major":244,"access":"r"},{"allow":true,"type":"b","major":226,"minor":128}],' +
    '"pids":{"limit":9007199254740993}}}';
  const spec = `{ "annotations": {"io.kfd-checkpoint.kfd-device":"244:0","a":"b"},\n "linux": ${linux} }`;
  const annotations = { 'io.kfd-checkpoint.kfd-device': '511:0', 'io.kfd-checkpoint.gpus': '[]' };
  const changed = rewriteSpec(spec, documentChanges(moves, annotations));
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
  const config =
    `{"spec":${spec},"device_host_src":[{"path":"/dev/kfd","major":0},` +
    '{"path":"/dev/dri/renderD128"}],"id":"x"}';
  assert.equal(
    rewriteConfig(config, documentChanges(moves, annotations)),
    `{"spec":${changed},"device_host_src":[{"path":"/dev/kfd","major":0},` +
      '{"path":"/dev/dri/renderD130"}],"id":"x"}',
  );
  for (const text of ['{}', '{"linux":{}}', '{"linux":null}', '{"linux":{"devices":null}}']) {
    assert.equal(rewriteSpec(text, documentChanges(moves, annotations)), text);
  }
  for (const text of [
    '{"linux":{"devices":{}}}',
    '{"linux":{"devices":[1]}}',
    '{"linux":1,"linux":2}',
  ]) {
    assert.throws(
      () => rewriteSpec(text, documentChanges(moves, annotations)),
      { code: 'E_IMAGE_CORRUPT' },
      text,
    );
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
    noCdi,
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
  const manifest = decodeManifest(
    Buffer.from(String(replaced.get('checkpoint/kfd-manifest.json'))),
  );
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
    noCdi,
  );
  assert.deepEqual(
    listed(gunzipSync(back.get(image) ?? '')).filter((line) => /12[89] |kfd/.test(line)),
    ['./kfd 234:0', './dri/renderD128 226:128', './dri/renderD129 226:129'],
  );
});

test('a device whose node is nowhere is refused by name', async () => {
  const placement = placeOnHost(sampleManifest(), target);
  await assert.rejects(relocate(source({}), placement, target, noCdi), {
    code: 'E_UNSUPPORTED_STATE',
    message: /^\/dev\/kfd: no image of a tmpfs in the archive has its node 234:0$/,
  });
});

test('a GPU without open file and buffer needs no node in the archive', async () => {
  const placement = placeOnHost(sampleManifest(), target);
  const image = 'checkpoint/tmpfs-dev-38.tar.gz.img';
  const manifest = sampleManifest();
  manifest.buffers = manifest.buffers.filter(({ gpu }) => gpu === 0);
  manifest.files = manifest.files.slice(0, 2);
  const dev = (...nodes: RawEntry[]) => ({
    ...source({ [image]: gzipSync(rawTar([node('./kfd', 234, 0), ...nodes])) }),
    manifest,
  });
  const replaced = await relocate(
    dev(node('./dri/renderD128', 226, 128)),
    placement,
    target,
    noCdi,
  );
  const lines = listed(gunzipSync(replaced.get(image) ?? ''));
  assert.ok(lines.includes('./dri/renderD140 226:140'), lines.join());
  await assert.rejects(
    relocate(dev(node('./dri/renderD129', 226, 129)), placement, target, noCdi),
    {
      message: /^gpu 0 \(renderD128\): no image of a tmpfs in the archive has its node 226:128$/,
    },
  );
});

test('the card node of a GPU moves like its render node, and back', async () => {
  const manifest = sampleManifest();
  Object.assign(manifest.gpus[0] ?? {}, { card_minor: 1 });
  const withCard = (host: typeof target, minor: number) => ({
    ...host,
    gpus: host.gpus.map((gpu, i) =>
      i === 0 ? { ...gpu, cardDevice: { major: 226, minor } } : gpu,
    ),
  });
  const image = 'checkpoint/tmpfs-dev-38.tar.gz.img';
  const dev = rawTar([
    node('./kfd', 234, 0),
    node('./dri/card1', 226, 1),
    node('./dri/renderD128', 226, 128),
    node('./dri/renderD129', 226, 129),
  ]);
  const spec =
    '{"linux":{"devices":[{"path":"/dev/dri/card1","type":"c","major":226,"minor":1}],' +
    '"resources":{"devices":[{"allow":true,"type":"c","major":226,"minor":1,"access":"rw"}]}}}';
  const config = `{"spec":${spec},"device_host_src":[{"path":"/dev/dri/card1"}]}`;
  const there = withCard(target, 3);
  assert.match(
    placeAsIs(manifest, there).mismatches.at(-2)?.message ?? '',
    /^card node of gpu 0 \(renderD128\): is 226:1 in the archive, and card3 \(226:3\) here$/,
  );
  const moved = await relocate(
    { manifest, config, spec, tmpfs: new Map([[image, gzipSync(dev)]]) },
    placeOnHost(manifest, there),
    there,
    noCdi,
  );
  const nodes = listed(gunzipSync(moved.get(image) ?? '')).filter((line) => line.includes('card'));
  assert.deepEqual(nodes, ['./dri/card3 226:3', './dri/card1 226:3']);
  const newSpec = spec.replace('card1', 'card3').replaceAll('"minor":1', '"minor":3');
  assert.equal(String(moved.get('spec.dump')), newSpec);
  assert.equal(
    String(moved.get('config.dump')),
    `{"spec":${newSpec},"device_host_src":[{"path":"/dev/dri/card3"}]}`,
  );
  const after = decodeManifest(Buffer.from(String(moved.get('checkpoint/kfd-manifest.json'))));
  assert.deepEqual(after.devices.assigned?.[0], { gpu: 0, render_minor: 140, card_minor: 3 });
  assert.deepEqual(placeAsIs(after, there).mismatches, []);
  const back = deviceMoves(after, withCard(target, 1), placeOnHost(after, target).pairs);
  assert.deepEqual(back, []); // a host without card nodes has nothing to move to
  const home = withCard(target, 1);
  assert.deepEqual(
    deviceMoves(after, home, placeOnHost(after, home).pairs).map(({ from, to }) => [from, to]),
    [
      [
        { major: 226, minor: 3 },
        { major: 226, minor: 1 },
      ],
    ],
  );
  // A bind-mounted node cannot be moved.
  await assert.rejects(
    relocate(
      { ...source({ [image]: gzipSync(recordedDev) }), manifest },
      placeOnHost(manifest, there),
      there,
      noCdi,
    ),
    { message: /^card node of gpu 0 .* has its node 226:1$/ },
  );
});

test('an image that unpacks to more than /dev holds is not taken for it; a damaged one is damaged', async () => {
  const placement = placeOnHost(sampleManifest(), target);
  const withFile = (bytes: number) =>
    gzipSync(Buffer.concat([recordedDev.subarray(0, -1024), large(bytes)]), { level: 1 });
  const large = (bytes: number) => rawTar([{ name: './file', data: Buffer.alloc(bytes) }]);
  assert.ok((await relocate(source({ a: withFile(12 << 20) }), placement, target, noCdi)).has('a'));
  await assert.rejects(relocate(source({ a: withFile(17 << 20) }), placement, target, noCdi), {
    code: 'E_UNSUPPORTED_STATE',
  });
  for (const image of [
    Buffer.from('hello'),
    gzipSync(recordedDev).subarray(0, 60),
    gzipSync(recordedDev.subarray(0, 700)),
    gzipSync(Buffer.alloc(0)),
  ]) {
    await assert.rejects(relocate(source({ a: image }), placement, target, noCdi), {
      code: 'E_IMAGE_CORRUPT',
    });
  }
});

test('of the images of tmpfs mounts only those with devices are kept, and not without end', async () => {
  const images = new Map<string, Buffer>();
  const collect = tmpfsCollector(images);
  const give = async (name: string, image: Buffer) =>
    collect(
      { name: `checkpoint/${name}`, size: image.length },
      (async function* () {
        yield image;
      })(),
    );
  const noisy = (...entries: readonly RawEntry[]) =>
    gzipSync(rawTar([...entries, { name: './noise', data: randomBytes(900 << 10) }]), { level: 1 });
  const kfd = node('./kfd', 234, 0);
  for (let i = 0; i < 12; i++) await give(`tmpfs-dev-${i}.tar.gz.img`, noisy());
  assert.equal(images.size, 0, 'none of them has a device');
  const crowd = Array.from({ length: 17_000 }, (_, i) => ({ name: `./${i}` }));
  await give('tmpfs-dev-5.tar.gz.img', gzipSync(rawTar([kfd, ...crowd])));
  await give('tmpfs-dev-6.tar.gz.img', gzipSync(Buffer.alloc(90 << 20), { level: 1 }));
  await give('tmpfs-dev-7.img', gzipSync(rawTar([kfd])));
  assert.equal(images.size, 0, 'none of them can be /dev');
  const device = async (i: number) => give(`tmpfs-dev-${100 + i}.tar.gz.img`, noisy(kfd));
  for (let i = 0; i < 9; i++) await device(i);
  await assert.rejects(device(9), {
    code: 'E_IMAGE_CORRUPT',
    message: /more devices than any container has/,
  });
  assert.equal(images.size, 9);
});
