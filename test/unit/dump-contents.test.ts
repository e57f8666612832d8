/** What is copied and drained when, without contents: two pages files, each of a GPU of its own. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Config, defaultConfig } from '../../src/config.js';
import { readHost } from '../../src/gpu/host.js';
import { createLogger } from '../../src/log.js';
import type { Descriptor } from '../../src/native.js';
import { DumpContents } from '../../src/session/contents/dump-contents.js';
import { ParentIndexes } from '../../src/session/contents/parent.js';
import { Transfers } from '../../src/session/contents/transfers.js';
import { planDrain } from '../../src/session/dump/plan-drain.js';
import type { DumpedProcess } from '../../src/session/dump/process.js';
import { dumped, kfdVersion } from './dumped.js';
import { type Asked, coded, fakeJobs, plenty, SlowJob } from './fake-job.js';
import { fixtures } from './paths.js';

const [first, second] = ['amdgpu-pages-0-0000.img', 'amdgpu-pages-0-0001.img'];
const turn = () => new Promise(setImmediate);

interface Bend {
  readonly config?: Partial<Config>;
  readonly parent?: ParentIndexes;
  readonly processes?: readonly DumpedProcess[];
}

async function sample(t: TestContext, aside: boolean, bend: Bend = {}) {
  const asked: Asked[] = [];
  const jobs: SlowJob[] = [];
  fakeJobs(t, (options) => {
    asked.push(options);
    const job = new SlowJob();
    jobs.push(job);
    return job;
  });
  const host = await readHost({ root: join(fixtures, 'sysfs/two-gpus'), kfdVersion });
  const transfers = new Transfers(plenty);
  const config = { ...defaultConfig(), engine: 'sdma', ...bend.config } as const;
  const context = {
    config,
    log: createLogger({ level: 'silent' }),
    image: '/image',
    contents: '/image',
    transfers,
  };
  const parts = planDrain(host, bend.processes ?? [dumped()], []);
  const contents = new DumpContents(context, parts, bend.parent, aside);
  await turn();
  const job = (index: number) => jobs[index] ?? assert.fail(`no job ${index}`);
  return { contents, transfers, asked, jobs, job };
}

/** A copy in the memory that it returns. */
function copy() {
  let closed = false;
  const close = () => {
    closed = true;
  };
  const memory = { fd: 7, close };
  const places = [0, 1].map((i) => ({ memory: 0, offset: i * 4096 }));
  const snapshot = { place: 'vram', memory: [memory], places, wallUs: 1 };
  return { snapshot, isClosed: () => closed };
}

test('one drain fails: this is told at once, with its reason, while the other one still runs', async (t) => {
  const { contents, transfers, job } = await sample(t, false);
  job(1).fail(coded('KFD_IO', 'no space left'));
  const reason = { code: 'E_IO', message: `${second}: no space left` };
  await assert.rejects(contents.released, reason);
  await assert.rejects(contents.drained, reason);
  transfers.cancel();
  assert.equal(job(0).cancelled, true);
  let ended = false;
  const end = contents.end().then(() => {
    ended = true;
  });
  await turn();
  assert.equal(ended, false, 'the image cannot be removed yet');
  job(0).fail(coded('KFD_CANCELLED', 'cancelled'));
  await end;
});

test('one copy fails: the tree does not wait for the other one', async (t) => {
  const { contents, transfers, asked, job } = await sample(t, true);
  assert.deepEqual(
    asked.map(({ operation, renderNode }) => [operation, renderNode]),
    [
      ['snapshot', '/dev/dri/renderD128'],
      ['snapshot', '/dev/dri/renderD129'],
    ],
  );
  job(1).fail(coded('KFD_GPU', 'ring timeout'));
  const reason = { code: 'E_GPU_IO', message: `copy of ${second}: ring timeout` };
  await assert.rejects(contents.released, reason);
  await assert.rejects(contents.drained, reason);
  transfers.cancel();
  const late = copy();
  let ended = false;
  const end = contents.end().then(() => {
    ended = true;
  });
  await turn();
  assert.equal(ended, false);
  job(0).end(late.snapshot);
  await end;
  assert.ok(late.isClosed(), 'a copy that came too late takes VRAM');
  assert.equal(asked.length, 2, 'nothing is drained');
});

test('a drain of a copy fails: CRIU does not wait for the others, whose copies stay until their end', async (t) => {
  const { contents, transfers, asked, job } = await sample(t, true);
  const copies = [copy(), copy()];
  copies.forEach(({ snapshot }, i) => void job(i).end(snapshot));
  await contents.released;
  await turn();
  assert.equal(asked.length, 2, 'the tree is stopped');
  contents.treeGoesOn();
  await turn();
  assert.deepEqual(
    asked.slice(2).map(({ operation, path, engine }) => [operation, path, engine]),
    [
      ['drain', `/image/${first}`, 'sdma'],
      ['drain', `/image/${second}`, 'sdma'],
    ],
  );
  job(3).fail(coded('KFD_IO', 'no space left'));
  await assert.rejects(contents.drained, { code: 'E_IO', message: `${second}: no space left` });
  assert.deepEqual(
    copies.map(({ isClosed }) => isClosed()),
    [false, true],
  );
  transfers.cancel();
  const end = contents.end();
  job(2).fail(coded('KFD_CANCELLED', 'cancelled'));
  await end;
  assert.ok(copies[0]?.isClosed());
});

test('files are expected with their bytes, refer to a parent and each other, and take their time', async (t) => {
  const began = performance.now();
  const parent = new ParentIndexes('/parent', 'base.tar', [second]);
  const { contents, transfers, asked, job } = await sample(t, false, { parent });
  assert.deepEqual(
    transfers.progress().map(({ name, renderNode, bytes }) => [name, renderNode, bytes]),
    [
      [first, '/dev/dri/renderD128', 12288],
      [second, '/dev/dri/renderD129', 16384],
    ],
  );
  assert.deepEqual(
    asked.map((options) => options.parent),
    [undefined, `/parent/${second}`],
  );
  assert.ok(asked[0]?.frames !== undefined && asked[0].frames === asked[1]?.frames);
  job(0).end({ engine: 'sdma' });
  job(1).end({ engine: 'sdma' });
  const files = await contents.drained;
  assert.deepEqual(
    files.map((file) => ['engineReason' in file, file.result.engine]),
    [
      [false, 'sdma'],
      [false, 'sdma'],
    ],
  );
  const { drain = -1, drain_overlapped: overlapped } = contents.timings(Number.POSITIVE_INFINITY);
  assert.ok(drain > 0 && drain <= 1000 * (performance.now() - began), `${drain} us`);
  assert.equal(overlapped, drain);
  await turn();
  assert.deepEqual(contents.timings(0)['drain'], drain, 'it has ended');
  assert.ok((contents.timings(0)['drain_overlapped'] ?? 0) < 0, 'the gate was long ago');
  assert.deepEqual(contents.copied, { vram: 0, host: 0, none: 28672 });
});

test('a session ends at once while its copies wait for the tree', async (t) => {
  const { contents, transfers, asked, job } = await sample(t, true);
  const copies = [copy(), copy()];
  copies.forEach(({ snapshot }, i) => void job(i).end(snapshot));
  await contents.released;
  assert.deepEqual(contents.copied, { vram: 28672, host: 0, none: 0 });
  transfers.cancel();
  await contents.end();
  assert.deepEqual(
    copies.map(({ isClosed }) => isClosed()),
    [true, true],
  );
  assert.equal(asked.length, 2);
});

test('a failure that nobody awaits yet ends no session', async (t) => {
  const { contents, job } = await sample(t, false);
  job(0).fail(coded('KFD_IO', 'no space left'));
  job(1).end();
  for (let n = 0; n < 5; n++) await turn();
  await assert.rejects(contents.drained, { code: 'E_IO' });
});

test('the CPU copies for all processes of a GPU, or for none', async (t) => {
  // 20 MB of VRAM: 0.7 s for one process, 1.4 s for two.
  const bos = [{ gpuId: 0x1234, size: 5000 * 4096, kind: 'vram', allocFlags: 1 }] as const;
  const [closed] = dumped().dmabufs.values();
  const process = (ordinal: number) => {
    const dmabufs = new Map([[0, closed as Descriptor]]);
    return { ...dumped({ bos }), ordinal, dmabufs };
  };
  const noSdma = coded('KFD_ENGINE', 'SDMA: no ring');
  const config = { engine: 'auto', gate_timeout_s: 1 } as const;
  const alone = await sample(t, false, { config, processes: [process(0)] });
  alone.job(0).fail(noSdma);
  await turn();
  assert.deepEqual(
    alone.asked.map(({ engine, frames }) => [engine, frames]),
    [
      ['sdma', undefined],
      ['cpu', undefined],
    ],
  );
  alone.job(1).end();
  assert.equal((await alone.contents.drained)[0]?.engineReason, 'SDMA: no ring');
  const both = await sample(t, false, { config, processes: [process(0), process(1)] });
  both.job(0).fail(noSdma);
  await assert.rejects(both.contents.released, {
    code: 'E_GPU_IO',
    message: `${first}: SDMA: no ring; the CPU may need 2 s for renderD128, and gate_timeout_s is 1`,
  });
});
