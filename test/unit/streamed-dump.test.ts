/** Checkpoints whose pages files go to another host while they are written. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync } from 'node:fs';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../../src/errors.js';
import { native } from '../../src/native.js';
import { messageType } from '../../src/session/plugin/wire.js';
import { names } from './forged-image.js';
import { temporaryFolder } from './paths.js';
import { dumpFiles, end, ok, read, started } from './started-dump.js';

const pages = [names.first, names.second];

async function streamed(t: TestContext) {
  const folder = await temporaryFolder(t);
  const [own, store, fifo] = ['own', 'store', 'fifo'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  await mkdir(own);
  await mkdir(store);
  execFileSync('mkfifo', [fifo]);
  const fd = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
  const stream = new (native().ContentsSender)(fifo);
  t.after(() => stream.stop());
  const all = await started(t, {}, own, stream);
  return { own, store, fd, stream, all };
}

test('what is written here arrives there before the image is sealed', async (t) => {
  const { own, store, fd, all } = await streamed(t);
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 0]));
  await dumpFiles(all);
  let isSealed = false;
  const sealed = ok(all.stage('post-dump')).then(() => {
    isSealed = true;
  });
  while ((await readdir(own)).length < pages.length) await delay(1);
  await delay(30);
  assert.equal(isSealed, false, 'nobody has read the stream yet');
  const arrived = await native().receiveContents(fd, store, { files: 2, bytes: 1 << 30 }).done;
  closeSync(fd);
  await sealed;
  assert.equal(arrived.files, 2);
  assert.deepEqual((await readdir(store)).sort(), pages);
  for (const name of pages)
    assert.deepEqual(await readFile(join(store, name)), await readFile(join(own, name)));
  assert.deepEqual(await end(all), [1]);
});

test('a reader that goes ends the checkpoint: the tree goes on, and nothing stays', async (t) => {
  const { own, fd, all } = await streamed(t);
  closeSync(fd);
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 0]));
  await dumpFiles(all);
  const refused = await all.stage('post-dump');
  assert.equal(refused.type, messageType.error, refused.text);
  assert.match(refused.text, /^E_IO: .*contents on their way/);
  all.worker.kill('SIGKILL');
  await once(all.worker, 'exit');
  assert.equal((await all.session.finish()).outcome, 'abandoned');
  assert.deepEqual(await readdir(own), []);
});

test('a cancel does not wait for a reader that hangs', async (t) => {
  const { own, fd, all, stream } = await streamed(t);
  t.after(() => closeSync(fd));
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 0]));
  while (stream.bytes() === 0) await delay(1);
  all.session.cancel(new KfdError('E_CANCELLED', 'test: enough'));
  all.worker.kill('SIGKILL');
  await once(all.worker, 'exit');
  assert.equal((await all.session.finish()).code, 'E_CANCELLED');
  assert.deepEqual(await readdir(own), []);
});
