/** CRIU's image of /dev, header by header: names in other headers, sizes that do not count, ends, and its size. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { hasDevices, rewriteNodes } from '../../src/archive/device-nodes.js';
import { relocate, tmpfsCollector } from '../../src/archive/relocate.js';
import { placeOnHost } from '../../src/gpu/compare.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { listed, move, noCdi, node } from './device-moves.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';
import { paxRecords, type RawEntry, rawTar } from './raw-tar.js';

const render = node('./dri/renderD128', 226, 128);
const moved = (...entries: readonly RawEntry[]) =>
  listed(rewriteNodes(rawTar(entries), [move(0, [226, 128], [226, 130])]).tar);
const both = ['./dri/renderD130 226:130', './dri/renderD128 226:130'];
const x = (record: string) => ({ name: 'x', type: 'x', data: paxRecords(record) });
const L = { name: 'L', type: 'L', data: Buffer.from('./dri/renderD128-long\0') };
const K = { name: 'K', type: 'K', data: paxRecords('path=b') };

test('a node whose name is in a header before it gets the number alone, others the name too', () => {
  for (const headers of [[L], [x('path=b')], [L, x('mtime=1')], [L, K], [x('path=b'), K]]) {
    const names = headers.map(({ name }) => name);
    assert.deepEqual(moved(...headers, render), [...names, './dri/renderD128 226:130']);
  }
  for (const header of [x('mtime=1.5'), K]) {
    const pair = both.flatMap((line) => [header.name, line]);
    assert.deepEqual(moved(header, render), pair);
  }
  // The header is for one entry alone.
  assert.deepEqual(moved(L, node('./null', 1, 3), render), ['L', './null 1:3', ...both]);
});

test('a node under the name of another kind gets the number alone', () => {
  assert.deepEqual(moved(node('./dri/card7', 226, 128)), ['./dri/card7 226:130']);
});

test('what has no contents has no bytes behind it, whatever size it says', () => {
  for (const type of ['1', '2', '3', '4', '5', '6']) {
    const odd = { name: './odd', type, size: 700, ...(type === '3' && { major: 1, minor: 1 }) };
    const { found } = rewriteNodes(rawTar([odd, render]), [move(0, [226, 128], [226, 130])]);
    assert.equal(found.size, 1, type);
  }
});

test("further headers of holes follow where GNU's format says so, and nowhere else", () => {
  // At this byte GNU's format says whether they follow. POSIX has a part of the name there.
  const prefix = (block: Buffer) => void block.write('p'.repeat(150), 345);
  assert.equal(moved({ name: 'a', bend: prefix }, render).at(-1), both[1]);
  const holes = (extended: number) => ({
    name: './holes',
    type: 'S',
    data: Buffer.alloc(512, 'd'),
    bend: (block: Buffer) => void block.writeUInt8(extended, 482),
  });
  assert.deepEqual(moved(holes(0), render), ['./holes', ...both]);
  // The header says that one follows; the first two of three say so, too.
  const more = Buffer.alloc(3 * 512);
  more[504] = 1;
  more[512 + 504] = 1;
  const tar = rawTar([holes(1), render]);
  const extended = Buffer.concat([tar.subarray(0, 512), more, tar.subarray(512)]);
  const { tar: rewritten, found } = rewriteNodes(extended, [move(0, [226, 128], [226, 130])]);
  assert.equal(found.size, 1);
  assert.deepEqual(rewritten.subarray(0, 2560), extended.subarray(0, 2560));
  assert.deepEqual(listed(rewritten.subarray(2560)), both);
});

test('one block of zeros ends it; an image that ends elsewhere says what is missing', () => {
  const moves = [move(0, [226, 128], [226, 130])];
  const whole = rawTar([render, { name: './note', data: Buffer.alloc(1024, 'n') }]);
  assert.equal(rewriteNodes(whole.subarray(0, -512), moves).found.size, 1);
  const refused = (reason: string) => ({
    code: 'E_IMAGE_CORRUPT',
    message: `image of a tmpfs: ${reason}`,
  });
  for (const length of [0, 100, 512, 900, 1024, 1536, 2000, 2048]) {
    const cut = whole.subarray(0, length);
    assert.throws(() => rewriteNodes(cut, moves), refused('the end is missing'), `${length}`);
  }
  for (const header of [L, x('mtime=1')]) {
    const alone = rawTar([render, header]);
    assert.throws(() => rewriteNodes(alone, moves), refused('a header without its entry'));
  }
});

test('a /dev has 16,384 entries at most, and block devices are not among those that count', () => {
  const plain = rawTar([{ name: './a' }]).subarray(0, 512);
  const withNode = (others: number, one: RawEntry) =>
    Buffer.concat([...Array(others).fill(plain), rawTar([one])]);
  assert.equal(hasDevices(withNode(16_383, render)), true);
  assert.equal(hasDevices(withNode(16_384, render)), false);
  // The number of a GPU, but another kind of device.
  const disk = withNode(1, { ...render, type: '4' });
  assert.equal(hasDevices(disk), false);
  const { tar, found } = rewriteNodes(disk, [move(0, [226, 128], [226, 130])]);
  assert.deepEqual([tar, found.size], [disk, 0]);
});

/** An image of exactly so many bytes: zeros may follow a gzip stream. */
function imageOf(bytes: number, ...entries: readonly RawEntry[]): Buffer {
  const packed = gzipSync(rawTar(entries));
  return Buffer.concat([packed, Buffer.alloc(bytes - packed.length)]);
}

test('an image of /dev has 1 MiB at most, and all of them 8 MiB; a file of its name elsewhere is none', async () => {
  const images = new Map<string, Buffer>();
  const collect = tmpfsCollector(images);
  const give = (name: string, image: Buffer) =>
    collect(
      { name, size: image.length },
      (async function* () {
        yield image;
      })(),
    );
  const mib = 1 << 20;
  await give('checkpoint/tmpfs-dev-1.tar.gz.img', imageOf(mib + 1, render));
  await give('checkpoins/tmpfs-dev-1.tar.gz.img', imageOf(mib, render));
  await give('tmpfs-dev-1.tar.gz.img', Buffer.from('no gzip'));
  assert.equal(images.size, 0);
  for (let i = 0; i < 8; i++) {
    await give(`checkpoint/tmpfs-dev-${i}.tar.gz.img`, imageOf(mib, render));
  }
  assert.equal(images.size, 8);
  await assert.rejects(give('checkpoint/tmpfs-dev-9.tar.gz.img', imageOf(300, render)), {
    code: 'E_IMAGE_CORRUPT',
    message: 'checkpoint/tmpfs-dev-9.tar.gz.img: more devices than any container has',
  });
  assert.equal(images.size, 8);
});

const dev = rawTar([
  node('./kfd', 234, 0),
  render,
  node('./dri/renderD129', 226, 129),
  node('./dri/card1', 226, 1),
]);
const image = 'checkpoint/tmpfs-dev-38.tar.gz.img';
const target = { ...hostWith({}, {}), kfdDevice: { major: 511, minor: 0 } };

test('the manifest says which nodes the host has, and a card only where both have one', async () => {
  const [first, second] = target.gpus;
  assert.ok(first && second);
  const { renderDevice: _, ...nodeless } = first;
  const withCard = { ...first, cardDevice: { major: 226, minor: 3 } };
  for (const [recorded, assigned] of [
    [
      [1, undefined],
      [3, undefined],
    ],
    [
      [undefined, undefined],
      [undefined, undefined],
    ],
    [
      [undefined, 1],
      [undefined, undefined],
    ],
  ] as const) {
    const manifest = sampleManifest();
    for (const [i, minor] of recorded.entries()) {
      if (minor !== undefined) Object.assign(manifest.gpus[i] ?? {}, { card_minor: minor });
    }
    const host = { ...target, gpus: [withCard, second] };
    const replaced = await relocate(
      { manifest, config: '{}', spec: '{}', tmpfs: new Map([[image, gzipSync(dev)]]) },
      placeOnHost(manifest, host),
      { ...host, gpus: [withCard, second, { ...nodeless, renderDevice: undefined }] },
      noCdi,
    );
    const text = Buffer.from(String(replaced.get('checkpoint/kfd-manifest.json')));
    const { devices } = decodeManifest(text);
    assert.equal(devices.render.length, 2);
    const minors = devices.assigned?.map(({ card_minor: minor }) => minor);
    assert.deepEqual(minors, assigned);
    assert.ok(listed(gunzipSync(replaced.get(image) ?? '')).includes('./kfd 511:0'));
  }
});

test('a card node of a GPU without contents is needed, its render node is not', async () => {
  const manifest = sampleManifest();
  manifest.buffers = manifest.buffers.filter(({ gpu }) => gpu === 0);
  manifest.files = manifest.files.slice(0, 2);
  Object.assign(manifest.gpus[1] ?? {}, { card_minor: 1 });
  const [first, second] = target.gpus;
  assert.ok(first && second);
  const host = {
    ...target,
    gpus: [first, { ...second, cardDevice: { major: 226, minor: 3 } }],
  };
  const made = (...nodes: readonly RawEntry[]) => {
    const tmpfs = new Map([[image, gzipSync(rawTar([node('./kfd', 234, 0), render, ...nodes]))]]);
    const source = { manifest, config: '{}', spec: '{}', tmpfs };
    return relocate(source, placeOnHost(manifest, host), host, noCdi);
  };
  assert.ok((await made(node('./dri/card1', 226, 1))).has(image));
  await assert.rejects(made(node('./dri/renderD129', 226, 129)), {
    code: 'E_UNSUPPORTED_STATE',
    message: /^card node of gpu 1 .* has its node 226:1$/,
  });
});

test('a host without KFD is refused before anything is read', async () => {
  const manifest = sampleManifest();
  const source = { manifest, config: '{', spec: '{', tmpfs: new Map() };
  const placement = placeOnHost(manifest, target);
  await assert.rejects(relocate(source, placement, { ...target, kfdDevice: undefined }, noCdi), {
    code: 'E_NO_GPU',
    message: '/dev/kfd: not on this host',
  });
});
