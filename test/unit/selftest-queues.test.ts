/** Stages queues and pause of the self-test, with a program that plays the real one. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { KfdError } from '../../src/errors.js';
import { processNameIfAny } from '../../src/os/ancestors.js';
import type { Bench } from '../../src/selftest/bench.js';
import { Control } from '../../src/selftest/control.js';
import { pauseStage } from '../../src/selftest/stages/pause.js';
import { queuesStage } from '../../src/selftest/stages/queues.js';
import { temporaryFolder } from './paths.js';
import { benchWith, type Fault, runStage } from './selftest-world.js';

const quick = { pauses: 10, pauseUs: 50, longestPauseUs: 9, unpauseUs: 100, longestUnpauseUs: 20 };

async function pause(
  t: TestContext,
  fault?: Fault,
  tryPauses: (pid: number) => Promise<typeof quick> = async () => quick,
) {
  return runStage(pauseStage({ bench: await benchWith(t, fault), tryPauses }));
}

/** Nothing of the stage may be left in its folder. */
function assertClean(bench: Bench): void {
  assert.deepEqual(readdirSync(bench.folder), []);
}

test('the program holds all GPUs, is asked three times, and ends', async (t) => {
  const bench = await benchWith(t);
  let told = '';
  const stage = queuesStage(bench);
  const result = await runStage({
    ...stage,
    run: async (work) => {
      await stage.run(work);
      told = await readFile(join(bench.folder, 'control/arguments'), 'utf8');
    },
  });
  assert.equal(result.status, 'passed', result.reason);
  const folder = join(bench.folder, 'control');
  assert.equal(told, `--folder ${folder} --render 128 --render 129 --mib 1\n`);
  const [setUp, ...looks] = result.steps.map(({ name }) => name);
  assert.deepEqual([setUp, looks.length], ['set up', 3]);
  assertClean(bench);
});

test('each way in which the program can fail is told, and nothing is left', async (t) => {
  const cases: [Fault, string, RegExp][] = [
    ['no start', 'E_GPU_IO', /KFD CREATE_QUEUE of AQL: Invalid argument$/],
    ['dies', 'E_GPU_IO', /^the test program ended: status 7$/],
    ['stands still', 'E_GPU_IO', /^gpu 0, gpu 1: the SDMA queue does not go on$/],
    ['finds damage', 'E_GPU_IO', /VRAM: byte 5 is 0x01, expected 0x02$/],
  ];
  for (const [fault, code, reason] of cases) {
    const bench = await benchWith(t, fault);
    const result = await runStage(queuesStage(bench));
    assert.deepEqual([result.status, result.code], ['failed', code], fault);
    assert.match(result.reason ?? '', reason);
    assert.match(result.hint ?? '', /kernel log/);
    assertClean(bench);
  }
});

test('an installation without the program is told', async (t) => {
  const bench = await benchWith(t, undefined, { prefix: '/nonexistent' });
  const result = await runStage(queuesStage(bench));
  assert.deepEqual([result.code, result.hint], ['E_HOST', 'install the package again']);
});

test('a hundred pauses in ten rounds, of the program itself; the means are told', async (t) => {
  const pids = new Set<number>();
  let times = 0;
  const result = await pause(t, undefined, async (pid) => {
    assert.notEqual(processNameIfAny(pid), undefined);
    pids.add(pid);
    times += 1;
    return quick;
  });
  assert.equal(result.status, 'passed', result.reason);
  assert.deepEqual([pids.size, times], [1, 10]);
  assert.deepEqual(result.steps, [
    { name: 'stop, mean of 100', us: 5, note: 'longest 9 us' },
    { name: 'run again, mean of 100', us: 10, note: 'longest 20 us' },
  ]);
  const [pid = 0] = pids;
  assert.equal(processNameIfAny(pid), undefined, 'the program is still there');
});

test('a pause that fails, and queues that do not go on after one', async (t) => {
  const failed = await pause(t, undefined, async () => {
    throw new KfdError('E_GPU_IO', 'pause: KFD UNPAUSE: Invalid argument');
  });
  assert.deepEqual(
    [failed.code, failed.reason],
    ['E_GPU_IO', 'pause: KFD UNPAUSE: Invalid argument'],
  );
  assert.match(failed.hint ?? '', /kernels\.md/);
  const still = await pause(t, 'stands still');
  assert.match(still.reason ?? '', /does not go on$/);
  const damaged = await pause(t, 'finds damage');
  assert.match(damaged.reason ?? '', /expected 0x02$/);
});

test('a GPU whose rounds take longer than a look goes on all the same', async (t) => {
  const slow = await pause(t, 'is slow');
  assert.equal(slow.status, 'passed', slow.reason);
});

test('an interruption ends a wait for the program, which is ended, too', async (t) => {
  const controller = new AbortController();
  const bench = await benchWith(t, 'is silent');
  const running = runStage(queuesStage(bench), controller.signal);
  setImmediate(() => controller.abort());
  const result = await running;
  assert.deepEqual([result.status, result.code], ['failed', 'E_CANCELLED']);
  assertClean(bench);
});

test('a program that never answers is told after a time', async (t) => {
  const folder = await temporaryFolder(t);
  const { signal } = new AbortController();
  const control = new Control(folder, { signal, pollMs: 1, limitMs: 5 });
  await assert.rejects(control.ask('status'), (error: KfdError) => error.code === 'E_TIMEOUT');
  assert.match(await readFile(join(folder, 'order'), 'utf8'), /^\d+\.1 status\n$/);
});
