import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { rewriteNodes, tmpfsImagePattern } from '../../src/archive/device-nodes.js';
import { KfdError } from '../../src/errors.js';
import { listed, move, node } from './device-moves.js';
import { randomFrom } from './random.js';
import { mutated, rawTar } from './raw-tar.js';

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
