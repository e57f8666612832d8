/** Which entries of an archive are trusted, up to which limits, and whose names they may have. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Entries } from '../../src/archive/entries.js';
import { isOfCheckpoint, isOurFile, plainName } from '../../src/archive/names.js';

const refused = (reason: string) => ({
  code: 'E_IMAGE_CORRUPT',
  message: `job.tar: ${reason}`,
  hint: 'the archive is damaged or incomplete; use another copy',
});

test('65,536 entries are taken, and no more', () => {
  const entries = new Entries('job.tar');
  for (let i = 0; i < 65_536; i++) assert.equal(entries.take(`${i}`, 'file'), `${i}`);
  assert.throws(
    () => entries.take('more', 'file'),
    refused('more entries than any checkpoint has'),
  );
});

test('4 MiB of names are taken, and no more', () => {
  const entries = new Entries('job.tar');
  for (let i = 0; i < 4096; i++) {
    const name = `${i}`.padStart(1024, 'n');
    assert.equal(entries.take(name, 'file'), name);
  }
  assert.throws(() => entries.take('x', 'file'), refused('more entries than any checkpoint has'));
});

test('16 names deep is taken, and no deeper', () => {
  const entries = new Entries('job.tar');
  const deepest = `${'a/'.repeat(15)}b`;
  assert.equal(entries.take(deepest, 'file'), deepest);
  const deeper = `${'a/'.repeat(16)}b`;
  assert.throws(
    () => entries.take(deeper, 'file'),
    refused(`${deeper}: more folders than any checkpoint has`),
  );
});

test('every folder that a name implies is one, also where none of them has an entry', () => {
  for (const [names, reason] of [
    [['a/b/c', 'a/b'], 'a/b takes the place of a folder'],
    [['a/b/c', 'a'], 'a takes the place of a folder'],
    [['a', 'a/b/c'], 'a/b/c: lies below a file or link'],
    [['a/b', 'a/b/c/d'], 'a/b/c/d: lies below a file or link'],
  ] as const) {
    const entries = new Entries('job.tar');
    entries.take(names[0], 'file');
    assert.throws(() => entries.take(names[1], 'link'), refused(reason), names.join());
  }
  for (const [first, second] of [
    ['folder', 'file'],
    ['folder', 'link'],
    ['file', 'folder'],
    ['link', 'folder'],
    ['file', 'file'],
  ] as const) {
    const entries = new Entries('job.tar');
    entries.take('a', first);
    assert.throws(() => entries.take('./a', second), refused('a is there twice'));
  }
  const entries = new Entries('job.tar');
  for (const name of ['a', 'a/b', './a/', 'a//b/']) {
    assert.equal(entries.take(name, 'folder'), undefined, name);
  }
  assert.equal(entries.take('./a//b/c', 'file'), 'a/b/c');
  assert.deepEqual(entries.misplaced, []);
});

test('the archive itself is a folder', () => {
  const entries = new Entries('job.tar');
  assert.equal(entries.take('./', 'folder'), undefined);
  assert.equal(entries.take('.', 'folder'), undefined);
  assert.throws(() => entries.take('./', 'file'), refused('./: a name of the archive itself'));
});

test('misplaced entries are named as they are spelled, twenty of them and with 200 characters', () => {
  const entries = new Entries('job.tar');
  const long = `./checkpoint/${'x'.repeat(300)}`;
  entries.take(long, 'special');
  entries.take('checkpoint/kfd-state-0.img', 'folder');
  for (const name of ['checkpoint/folder', 'rootfs-diff.tar', 'checkpoint/parent']) {
    entries.take(name, name.endsWith('folder') ? 'folder' : 'link');
  }
  assert.deepEqual(entries.misplaced, [long.slice(0, 200), 'checkpoint/kfd-state-0.img']);
  for (let i = 0; i < 30; i++) assert.equal(entries.take(`checkpoint/${i}`, 'link'), undefined);
  assert.equal(entries.misplaced.length, 20);
  assert.equal(entries.misplaced.at(-1), 'checkpoint/17');
});

test('a name is plain, or leads out of the archive', () => {
  for (const [name, plain] of [
    ['a', 'a'],
    ['./a//b/./c/', 'a/b/c'],
    ['.', ''],
    ['..a/b..', '..a/b..'],
    ['n'.repeat(1024), 'n'.repeat(1024)],
    ['n'.repeat(1025), undefined],
    ['', undefined],
    ['a\0', undefined],
    ['/a', undefined],
    ['a/..', undefined],
    ['a/../b', undefined],
    ['..', undefined],
  ] as const) {
    assert.equal(plainName(name), plain, name.slice(0, 20));
  }
});

test('which names are ours, and which only a regular file of a checkpoint may have', () => {
  const table: Readonly<Record<string, readonly [ours: boolean, ofCheckpoint: boolean]>> = {
    'config.dump': [true, true],
    'spec.dump': [true, true],
    'checkpoint/inventory.img': [true, true],
    'checkpoint/kfd-manifest.json': [true, true],
    'checkpoint/kfd-state-0.img': [true, true],
    'checkpoint/render-state-3.img': [true, true],
    'checkpoint/amdgpu-pages-0-0001.img': [true, true],
    'checkpoint/core-1.img': [false, true],
    checkpoint: [false, true],
    'checkpoint/parent': [false, false],
    'checkpoint/parent/core-1.img': [false, true],
    'kfd-manifest.json': [false, false],
    'inventory.img': [false, false],
    'kfd-state-0.img': [false, false],
    // As long as the folder's name is cut off, whatever it is.
    'checkpoins/kfd-state-0.img': [false, false],
    'rootfs-diff.tar': [false, false],
    checkpoints: [false, false],
  };
  for (const [name, expected] of Object.entries(table)) {
    assert.deepEqual([isOurFile(name), isOfCheckpoint(name)], expected, name);
  }
});
