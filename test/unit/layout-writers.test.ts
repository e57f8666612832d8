/** Several processes that write into one image layout: no tag and no blob is lost. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { lockName } from '../../src/archive/layout-lock.js';
import { Lock } from '../../src/os/lock.js';
import { entriesOf, tarOf } from './archive-builder.js';
import { cli } from './cli-context.js';
import { checkpoint, first, second, services } from './drained-archive.js';
import { Layered } from './layered-image.js';
import { layout } from './oci-image.js';
import { sample } from './restorable.js';

const whole = ['blobs', 'index.json', 'oci-layout'];

async function tagsOf({ dir }: Layered): Promise<string[]> {
  const { manifests } = JSON.parse(await readFile(join(dir, 'index.json'), 'utf8'));
  return manifests
    .map((one: { annotations: Record<string, string> }) => Object.values(one.annotations)[0])
    .sort();
}

test('writers at once into a new layout are both in it, whole', async (t) => {
  const work = await Layered.make(t);
  const archives = [
    await work.archive(await checkpoint(t, first)),
    await work.archive(await checkpoint(t, second)),
  ];
  await Promise.all(archives.map((archive, place) => work.image(archive, `job:${place}`)));
  assert.deepEqual(await tagsOf(work), ['job:0', 'job:1']);
  for (const tag of ['job:0', 'job:1']) {
    const { code, stderr } = await work.run('verify', '--quiet', work.name(tag));
    assert.equal(code, 0, stderr);
  }
  assert.deepEqual(readdirSync(work.dir).sort(), whole);
});

test('a writer relies on blobs that another one would remove, and they stay', async (t) => {
  const work = await Layered.make(t);
  const [one, other] = [await checkpoint(t, first), await checkpoint(t, second)];
  const before = await work.image(await work.archive(one), 'job:1');
  // One replaces the only image that has these contents, the other makes a second image of them.
  const [archive, same] = [await work.archive(other), await work.archive(one)];
  const made = await Promise.all([work.image(archive, 'job:1'), work.image(same, 'same:1')]);
  assert.deepEqual(await tagsOf(work), ['job:1', 'same:1']);
  for (const { digest } of made.flatMap((report) => [report, ...report.layers])) {
    assert.ok(existsSync(work.blob(digest)), digest);
  }
  assert.ok(existsSync(work.blob(before.layers[0]?.digest ?? '')));
});

/** Somebody else writes. `onWait`: when the verb says that it waits. */
async function withHolder(work: Layered, words: string[], onWait: (holder: Lock) => void) {
  const holder = (await Lock.tryTake(join(work.dir, lockName))) as Lock;
  const interrupted = new AbortController();
  let told = '';
  const err = (text: string) => {
    told += text;
    if (!text.includes('waits for another process')) return;
    onWait(holder);
    if (words[0] === 'image') interrupted.abort();
  };
  const { code } = await cli(words, { native: services, err, signal: interrupted.signal });
  return { code, told, holder };
}

test('an interrupt ends the wait for a writer, and nothing was written', async (t) => {
  const work = await Layered.make(t);
  const archive = await work.archive(await checkpoint(t, first));
  await work.image(archive, 'job:1');
  const before = readdirSync(join(work.dir, 'blobs/sha256')).sort();
  const words = ['image', archive, work.name('job:2')];
  const { code, told, holder } = await withHolder(work, words, () => undefined);
  assert.equal(code, 1);
  assert.match(told, /layout:job:2: waits for another process that writes into this layout$/m);
  assert.match(told, /layout:job:2: cancelled while another process writes into it$/m);
  assert.deepEqual(await tagsOf(work), ['job:1']);
  assert.deepEqual(readdirSync(join(work.dir, 'blobs/sha256')).sort(), before);
  assert.equal(await Lock.tryTake(join(work.dir, lockName)), undefined, 'the holder still has it');
  await holder.remove();
});

test('annotations wait for a writer, too, and then add to what that has left', async (t) => {
  const work = await Layered.make(t);
  await layout(work.dir, [{ layers: [{ bytes: await tarOf(entriesOf(sample())) }], tag: 'a:1' }]);
  const words = ['annotate', work.name('a:1')];
  const { code, told } = await withHolder(work, words, (holder) => void holder.remove());
  assert.equal(code, 0, told);
  const again = await cli(['annotate', '--format', 'json', work.name('a:1')], { native: services });
  assert.equal(JSON.parse(again.stdout).changed, false);
  assert.ok(!existsSync(join(work.dir, lockName)));
});

test('a lock that a killed writer has left stops nobody', async (t) => {
  const work = await Layered.make(t);
  const archive = await work.archive(await checkpoint(t, first));
  const left = await Lock.tryTake(join(work.dir, lockName));
  await left?.release();
  await work.image(archive, 'job:1');
  assert.deepEqual(readdirSync(work.dir).sort(), whole);
});

test('an image that was replaced while annotations waited gets none of the old one', async (t) => {
  const work = await Layered.make(t);
  const image = async (more: object) => ({
    layers: [{ bytes: await tarOf(entriesOf({ ...sample(), ...more })) }],
    tag: 'a:1',
  });
  await layout(work.dir, [await image({})]);
  const other = await image({ 'container.log': 'of another checkpoint' });
  const replace = (holder: Lock) => void layout(work.dir, [other]).then(() => holder.remove());
  const { code, told } = await withHolder(work, ['annotate', work.name('a:1')], replace);
  assert.equal(code, 1, told);
  assert.match(told, /a:1: was replaced by another process$/m);
});

test('a layout that a failed writer has begun is one for the next', async (t) => {
  const work = await Layered.make(t);
  await mkdir(join(work.dir, 'blobs/sha256'), { recursive: true });
  await writeFile(join(work.dir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  await work.image(await work.archive(await checkpoint(t, first)), 'job:1');
  assert.deepEqual(await tagsOf(work), ['job:1']);
});

test('an image that is copied within its layout is read when the other writer has ended', async (t) => {
  const work = await Layered.make(t);
  await work.image(await work.archive(await checkpoint(t, first)), 'job:1');
  const holder = (await Lock.tryTake(join(work.dir, lockName))) as Lock;
  let told = '';
  const err = (text: string) => {
    told += text;
    if (!text.includes('waits for another process')) return;
    // It replaces the image, and removes what only that one had.
    const index = join(work.dir, 'index.json');
    void readFile(index, 'utf8')
      .then((text) => writeFile(index, text.replace('job:1', 'gone:1')))
      .then(() => holder.remove());
  };
  const words = ['image', work.name('job:1'), work.name('copy:1')];
  const { code } = await cli(words, { native: services, err });
  assert.equal(code, 4, told);
  assert.ok(!told.includes('blobs/sha256'), `not a missing blob, but a missing image: ${told}`);
  assert.deepEqual(await tagsOf(work), ['gone:1']);
});
