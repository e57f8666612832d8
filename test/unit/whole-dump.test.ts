/** Whole checkpoints of a process with KFD: the plugin and CRIU are played, files play its buffers, the CPU drains. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../../src/errors.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { messageType } from '../../src/session/plugin/wire.js';
import { coded, fakeJobs, SlowJob } from './fake-job.js';
import { names } from './forged-image.js';
import {
  assertWhole,
  contents,
  dumpFiles,
  end,
  ok,
  read,
  type Started,
  started,
} from './started-dump.js';

const whole = [names.first, names.second, 'kfd-manifest.json', names.state, names.render].sort();

test('a checkpoint: states, contents and files are in a sealed image that a restore accepts', async (t) => {
  const all = await started(t);
  await read(all);
  assert.equal(await ok(all.ask(messageType.dumpBegin, [1, 0])), 'log');
  await dumpFiles(all);
  await ok(all.stage('network-lock'));
  assert.ok(!existsSync(join(all.image, 'kfd-manifest.json')));
  await ok(all.stage('post-dump'));
  assert.deepEqual((await readdir(all.image)).sort(), whole);
  const manifest = decodeManifest(await readFile(join(all.image, 'kfd-manifest.json')));
  assert.deepEqual(manifest.ext_files, [
    { criu_id: 5, kind: 'kfd', process: 0 },
    { criu_id: 6, kind: 'render', process: 0, gpu: 0, render_state: names.render },
    { criu_id: 7, kind: 'drm', process: 0, gpu: 1 },
  ]);
  assert.equal(manifest.processes[0]?.pid, all.pid);
  assert.deepEqual(
    manifest.files.map(({ name }) => name).sort(),
    whole.filter((name) => !name.includes('manifest')),
  );
  for (const name of [
    'prepare',
    'wait_for_tree',
    'read_state',
    'overlap',
    'gate',
    'seal',
    'total',
    'drain',
  ]) {
    assert.ok((manifest.timings_us[name] ?? -1) >= 0, `no time of ${name}`);
  }
  await assertWhole(t, all);
  assert.throws(() => all.session.cancel(new KfdError('E_CANCELLED', 'x')), {
    code: 'E_TOO_LATE',
    message: 'session: cannot be cancelled: the image is complete',
  });
  assert.deepEqual(await end(all), [1], 'the GPU of a dying tree stays paused');
  await ok(all.ask(messageType.dumpResult, [0]));
  all.worker.kill('SIGKILL');
  await once(all.worker, 'exit');
  assert.equal((await all.session.finish()).outcome, 'sealed');
  assert.deepEqual(all.unpaused, []);
  for (const { fd } of all.dmabufs) assert.equal(fd, -1, 'a buffer of the tree is held');
});

test('a short freeze: the tree runs before the image is sealed, and the image has what was there', async (t) => {
  const all = await started(t);
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 1]));
  await dumpFiles(all);
  await ok(all.stage('post-dump'));
  assert.ok(!existsSync(join(all.image, 'kfd-manifest.json')));
  assert.ok(existsSync(join(all.image, names.state)));
  for (const { fd } of all.dmabufs) assert.equal(fd, -1, 'what the tree frees must become free');
  assert.deepEqual(await end(all), [2]);
  await ok(all.ask(messageType.dumpUnpaused, []));
  for (const [i, [, bytes]] of contents.entries()) {
    await writeFile(all.paths[i] as string, Buffer.alloc(bytes.length, 0x5a));
  }
  await ok(all.ask(messageType.dumpResult, [0]));
  const manifest = decodeManifest(await readFile(join(all.image, 'kfd-manifest.json')));
  for (const name of ['freeze', 'snapshot', 'after_freeze']) {
    assert.ok((manifest.timings_us[name] ?? 0) > 0, `no time of ${name}`);
  }
  await assertWhole(t, all);
  assert.equal((await all.session.finish()).outcome, 'sealed');
  assert.deepEqual(all.unpaused, []);
});

test('without short_freeze a tree that continues waits for the seal', async (t) => {
  const all = await started(t, { short_freeze: false });
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 1]));
  await dumpFiles(all);
  await ok(all.stage('post-dump'));
  assert.ok(existsSync(join(all.image, 'kfd-manifest.json')));
  assert.deepEqual(await end(all), [1]);
  assert.equal(
    (await all.session.finish()).outcome,
    'abandoned',
    'the tree runs on without a result',
  );
  assert.deepEqual(all.unpaused, [all.pid]);
});

/** How a checkpoint ends whose failure was told: nothing stays paused, and nothing in the image. */
async function assertUndone(all: Started, reason: string, told: string): Promise<void> {
  assert.ok(told.startsWith(reason), told);
  assert.deepEqual(await end(all, -1), [0]);
  const { outcome, code, message } = await all.session.finish();
  assert.equal(outcome, 'abandoned');
  assert.equal(`${code}: ${message}`, reason);
  assert.deepEqual(all.unpaused, [all.pid]);
  assert.deepEqual(await readdir(all.image), []);
}

test('a failed drain cancels the other one; the image goes when both have ended', async (t) => {
  const all = await started(t);
  const jobs: SlowJob[] = [];
  fakeJobs(t, () => {
    const job = new SlowJob();
    jobs.push(job);
    return job;
  });
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 0]));
  while (jobs.length < 2) await delay(1);
  const [running, broken] = jobs;
  broken?.fail(coded('KFD_IO', 'No space left on device'));
  await new Promise(setImmediate);
  assert.equal(running?.cancelled, true);
  const { type, text } = await all.stage('post-dump');
  assert.equal(type, messageType.error);
  setTimeout(async () => {
    await writeFile(join(all.image, names.first), 'what it has written meanwhile');
    running?.fail(coded('KFD_CANCELLED', 'cancelled'));
  }, 20);
  await assertUndone(all, `E_IO: ${names.second}: No space left on device`, text);
});

test('what the plugin refuses, and a cancel, end the checkpoint at its next question', async (t) => {
  const refused = await started(t);
  await read(refused);
  await refused.send(messageType.dumpRefused, [0, 0], 'pid 7 (x): has a queue of a kind');
  const begin = await refused.ask(messageType.dumpBegin, [1, 0]);
  assert.equal(begin.type, messageType.error);
  await assertUndone(refused, 'E_UNSUPPORTED_STATE: pid 7 (x): has a queue of a kind', begin.text);
  const cancelled = await started(t);
  await read(cancelled);
  await ok(cancelled.ask(messageType.dumpBegin, [1, 0]));
  cancelled.session.cancel(new KfdError('E_CANCELLED', 'session: cancelled: enough'));
  const gate = await cancelled.stage('post-dump');
  assert.equal(gate.type, messageType.error);
  await assertUndone(cancelled, 'E_CANCELLED: session: cancelled: enough', gate.text);
});

test('messages that do not fit together fail the checkpoint', async (t) => {
  const all = await started(t);
  await read(all);
  const { text } = await all.ask(messageType.dumpBegin, [2, 0]);
  await assertUndone(all, 'E_PROTOCOL: plugin: a process is missing', text);
  const late = await started(t);
  await read(late);
  await ok(late.ask(messageType.dumpBegin, [1, 0]));
  const again = await late.ask(messageType.dumpBegin, [1, 0]);
  await assertUndone(late, 'E_PROTOCOL: plugin: begin while draining', again.text);
});
