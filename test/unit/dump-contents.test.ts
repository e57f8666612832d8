/** What is copied and drained when, without contents: two pages files, each of a GPU of its own. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { defaultConfig } from '../../src/config.js';
import { readHost } from '../../src/gpu/host.js';
import { createLogger } from '../../src/log.js';
import { DumpContents } from '../../src/session/contents/dump-contents.js';
import { Transfers } from '../../src/session/contents/transfers.js';
import { planDrain } from '../../src/session/dump/plan-drain.js';
import { dumped, kfdVersion } from './dumped.js';
import { type Asked, coded, fakeJobs, plenty, SlowJob } from './fake-job.js';
import { fixtures } from './paths.js';

const [first, second] = ['amdgpu-pages-0-0000.img', 'amdgpu-pages-0-0001.img'];
const turn = () => new Promise(setImmediate);

async function sample(t: TestContext, aside: boolean) {
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
  const config = { ...defaultConfig(), engine: 'sdma' } as const;
  const context = { config, log: createLogger({ level: 'silent' }), image: '/image', transfers };
  const contents = new DumpContents(context, planDrain(host, [dumped()], []), undefined, aside);
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
