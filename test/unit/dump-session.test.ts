/** A dump session with a plugin and a launcher that are played: no GPU, no CRIU. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fstatSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freezeTold, tellFreeze } from '../../src/criu/freeze-moment.js';
import { readHost } from '../../src/gpu/host.js';
import { type Descriptor, native } from '../../src/native.js';
import type { KernelSource } from '../../src/session/dump/kernel-limits.js';
import { DumpSession } from '../../src/session/dump/session.js';
import { messageType } from '../../src/session/plugin/wire.js';
import { fixtures, temporaryFolder } from './paths.js';
import { playedSession } from './played-session.js';
import { bentHost } from './sysfs-tree.js';

const twoGpus = join(fixtures, 'sysfs/two-gpus');

type RestoreTakes = KernelSource['restoreTakes'];

async function started(
  t: TestContext,
  root = twoGpus,
  restoreTakes: RestoreTakes = () => assert.fail('no queue is on several dies'),
  asker?: string,
) {
  const image = await temporaryFolder(t);
  const asked = asker === undefined ? {} : { asker };
  const request = { operation: 'dump', criuPid: process.pid, image, ...asked } as const;
  const played = await playedSession(t, request);
  const host = () => readHost({ root, kfdVersion: '1.17' });
  const session = new DumpSession(played.context, host, { root, restoreTakes });
  await session.start();
  const send = (type: number, args: number[], body: string | Buffer = '', fds: Descriptor[] = []) =>
    played.send({ type, args, body, fds });
  return { session, image, ...played, send };
}

type Started = Awaited<ReturnType<typeof started>>;

const typesOf = ({ replies }: Started) => replies.map(({ type }) => type);

/** Processes that use render nodes alone, with nothing in them. */
async function processes({ send }: Started, count: number, pid = process.pid): Promise<void> {
  const empty = await readFile(join(fixtures, 'image-v1/state-empty.img'));
  for (let ordinal = 0; ordinal < count; ordinal++) {
    const pidfd = native().openPidfd(pid);
    await send(messageType.dumpPause, [ordinal, pid], 'worker', [pidfd]);
    await send(messageType.dumpState, [ordinal], '', [native().memfd(empty)]);
  }
  await send(messageType.dumpBegin, [count, 0]);
}

test('a checkpoint whose GPU processes have ended in time is a success', async (t) => {
  const all = await started(t);
  await all.send(messageType.stage, [], 'post-dump');
  await all.send(messageType.dumpEnd, [0, 0]);
  assert.deepEqual(typesOf(all), [messageType.ok, messageType.ok]);
  const { outcome, success, code } = await all.session.finish();
  assert.deepEqual(
    { outcome, success, code },
    { outcome: 'no_gpu_state', success: true, code: '' },
  );
});

/** Plays a checkpoint of the process `pid` up to exit(DUMP), of which the session hears a success. */
async function untilSealed(all: Started, pid?: number): Promise<void> {
  await processes(all, 1, pid);
  await all.send(messageType.stage, [], 'post-dump');
  while (all.replies.length < 2) await delay(5);
  await all.send(messageType.dumpEnd, [0, 0]);
}

const whole = ['kfd-manifest.json', 'kfd-state-0.img'];

test('sealed at post-dump, kept when CRIU ends well', async (t) => {
  const all = await started(t);
  await untilSealed(all);
  await all.send(messageType.dumpResult, [0]);
  assert.equal(all.replies.at(-1)?.type, messageType.ok);
  assert.equal((await all.session.finish()).outcome, 'sealed');
  assert.deepEqual((await readdir(all.image)).sort(), whole);
});

test('a sealed image is removed when CRIU fails after exit(DUMP) had been told of a success', async (t) => {
  const all = await started(t);
  await untilSealed(all);
  await all.send(messageType.dumpResult, [1]);
  while (all.replies.length < 4) await delay(5);
  assert.equal(all.replies.at(-1)?.type, messageType.error);
  assert.deepEqual(await readdir(all.image), [], 'gone before CRIU ends');
  assert.equal((await all.session.finish()).outcome, 'abandoned');
});

test('the command that has asked is told from when on the tree stands still', async (t) => {
  const asker = await temporaryFolder(t);
  const before = performance.now();
  const all = await started(t, twoGpus, undefined, asker);
  assert.equal(freezeTold(asker), undefined);
  const ready = performance.now();
  await all.send(messageType.dumpSurveyed, [process.pid]);
  const at = freezeTold(asker) ?? assert.fail('nothing was told');
  assert.ok(before < ready && ready <= at && at <= performance.now(), `${ready} ${at}`);
  const text = await readFile(join(asker, 'frozen'), 'utf8');
  await processes(all, 1);
  assert.equal(await readFile(join(asker, 'frozen'), 'utf8'), text);
  await all.session.finish();
});

test('a freeze that nobody has told, or told in other words, is not known', async (t) => {
  const folder = await temporaryFolder(t);
  tellFreeze(join(folder, 'of a command that has gone'));
  assert.equal(freezeTold(folder), undefined);
  const later = process.hrtime.bigint() + 10n ** 12n;
  for (const text of ['', '12', 'x\n', `${'9'.repeat(20)}\n`, `${later}\n`]) {
    await writeFile(join(folder, 'frozen'), text);
    assert.equal(freezeTold(folder), undefined, text);
  }
});

test('CRIU dies without a result: a sealed image stays only if its tree has ended', async (t) => {
  const survivor = await started(t);
  await untilSealed(survivor);
  assert.equal((await survivor.session.finish()).outcome, 'abandoned', 'this process lives');
  assert.deepEqual(await readdir(survivor.image), []);

  const worker = spawn('sleep', ['60']);
  t.after(() => worker.kill('SIGKILL'));
  await once(worker, 'spawn');
  const ended = await started(t);
  await untilSealed(ended, worker.pid);
  worker.kill('SIGKILL');
  assert.equal((await ended.session.finish()).outcome, 'sealed');
  assert.deepEqual((await readdir(ended.image)).sort(), whole);
});

test('CRIU dies at any moment after post-dump came: nothing appears in the image afterwards', async (t) => {
  for (let turns = 0; turns < 12; turns++) {
    const all = await started(t);
    await processes(all, 40);
    void all.send(messageType.stage, [], 'post-dump');
    for (let i = 0; i < turns; i++) await new Promise(setImmediate);
    const { outcome } = await all.session.finish();
    assert.equal(outcome, 'abandoned');
    assert.deepEqual(await readdir(all.image), [], `after ${turns} turns`);
    await delay(20);
    assert.deepEqual(await readdir(all.image), [], `later, after ${turns} turns`);
  }
});

const isOpen = ({ fd }: Descriptor): boolean => {
  try {
    fstatSync(fd);
    return true;
  } catch {
    return false;
  }
};

test("a process that has ended is held no longer, also before CRIU's end", async (t) => {
  const all = await started(t);
  const worker = spawn('sleep', ['60']);
  t.after(() => worker.kill('SIGKILL'));
  await once(worker, 'spawn');
  const pidfd = native().openPidfd(worker.pid as number);
  const kfd = native().memfd(Buffer.from('stands for /dev/kfd'));
  await all.send(messageType.dumpPause, [0, worker.pid as number], 'worker', [pidfd, kfd]);
  await delay(20);
  assert.ok(isOpen(kfd), 'needed to undo the pause');
  worker.kill('SIGKILL');
  await once(worker, 'exit');
  for (let n = 0; n < 100 && isOpen(kfd); n++) await delay(10);
  assert.ok(!isOpen(kfd), 'its queues and its VRAM stay');
  assert.equal((await all.session.finish()).outcome, 'abandoned');
});

test('before the pause the session names the queues that this kernel cannot bring back', async (t) => {
  const queues = 'sys/class/kfd/kfd/proc/4711/queues';
  const queue = (id: number, type: number, gpuId: number) => ({
    [`${queues}/${id}/type`]: `${type}`,
    [`${queues}/${id}/gpuid`]: `${gpuId}`,
  });
  const root = await bentHost(t, 'two-gpus', {
    'proc/sys/kernel/osrelease': '7.2.13+deb14-amd64',
    ...queue(0, 0, 51966),
    ...queue(1, 1, 51966),
    ...queue(2, 0, 47806),
  });
  const all = await started(t, root);
  const ask = async (pid: number) => {
    const before = all.replies.length;
    await all.send(messageType.dumpSurveyed, [pid]);
    while (all.replies.length === before) await delay(5);
    return all.replies.at(-1)?.text;
  };
  assert.match(
    (await ask(4711)) ?? '',
    /^compute queues 0, 2 on a gfx90a: RESTORE of this kernel makes no room [^;]*$/,
  );
  assert.equal(await ask(4712), '', 'a process without queues');
  assert.deepEqual(typesOf(all), [messageType.ok, messageType.ok]);
  assert.equal((await all.session.finish()).outcome, 'abandoned');
});

test('without CWSR no queue is saved, which is said before the pause', async (t) => {
  const root = await bentHost(t, 'two-gpus', {
    'sys/module/amdgpu/parameters/cwsr_enable': '0\n',
    'sys/class/kfd/kfd/proc/4711/queues/1/type': '1',
    'sys/class/kfd/kfd/proc/4711/queues/1/gpuid': '51966',
  });
  const all = await started(t, root);
  await all.send(messageType.dumpSurveyed, [4711]);
  while (all.replies.length === 0) await delay(5);
  assert.match(
    all.replies[0]?.text ?? '',
    /^sdma queue 1 on a gfx90a: no queue .* with amdgpu\.cwsr_enable=0/,
  );
  await all.session.finish();
});

test('RESTORE is asked once whether it takes queues on several dies, and believed', async (t) => {
  const node = 'sys/class/kfd/kfd/topology/nodes/1/properties';
  const text = await readFile(join(fixtures, 'sysfs/two-gpus', node), 'utf8');
  const queues = 'sys/class/kfd/kfd/proc/4711/queues';
  const root = await bentHost(t, 'two-gpus', {
    [node]: text.replace('num_xcc 1', 'num_xcc 8').replace('90010', '90402'),
    'proc/sys/kernel/osrelease': '7.3.4+deb13-amd64',
    [`${queues}/1/type`]: '0',
    [`${queues}/1/gpuid`]: '51966',
  });
  for (const answer of ['yes', 'no', 'unknown'] as const) {
    const asked: Parameters<RestoreTakes>[0][] = [];
    const all = await started(t, root, (queue) => {
      asked.push(queue);
      return answer;
    });
    await all.send(messageType.dumpSurveyed, [4711]);
    await all.send(messageType.dumpSurveyed, [4711]);
    while (all.replies.length < 2) await delay(5);
    const why = /^compute queue 1 on a gfx942 with 8 compute dies: this kernel saves all/;
    for (const { text } of all.replies) assert.equal(why.test(text), answer !== 'yes', text);
    const gpus = [
      { gpuId: 51966, renderNode: '/dev/dri/renderD128' },
      { gpuId: 47806, renderNode: '/dev/dri/renderD129' },
    ];
    assert.deepEqual(asked, [{ gpus, gpuId: 51966, type: 0, dieBytes: 2048, mqdBytes: 16384 }]);
    await all.session.finish();
  }
});

test('no checkpoint begins before each dma-buf was compared with its BO', async (t) => {
  const all = await started(t);
  const golden = await readFile(join(fixtures, 'image-v1/state-two-gpus.img'));
  const [first, second] = (await readHost({ root: twoGpus, kfdVersion: '1.17' })).gpus;
  assert.ok(first !== undefined && second !== undefined);
  const ids = [first.record.gpu_id, second.record.gpu_id];
  await all.send(messageType.dumpPause, [0, process.pid], 'worker', [
    native().openPidfd(process.pid),
  ]);
  const state = native().stateForRestore(golden, ids, []);
  await all.send(messageType.dumpState, [0], '', [state]);
  // A memfd is no dma-buf, also where this machine has a GPU.
  const body = Buffer.alloc(4);
  await all.send(messageType.dumpBuffers, [0], body, [native().memfd(Buffer.alloc(2 << 20))]);
  await all.send(messageType.dumpBegin, [1, 0]);
  assert.deepEqual(typesOf(all), [messageType.error]);
  assert.match(all.replies[0]?.text ?? '', /^E_\w+: GPU \d+: its buffers cannot be compared: /);
  assert.equal((await all.session.finish()).success, false);
  assert.deepEqual(await readdir(all.image), []);
});
