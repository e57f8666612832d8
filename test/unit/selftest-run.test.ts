/** Stages of the self-test: their order, where they stop, and what is undone. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KfdError } from '../../src/errors.js';
import { runStages } from '../../src/selftest/run.js';
import { selectedStages } from '../../src/selftest/select.js';
import {
  Skipped,
  type Stage,
  type StageName,
  type StageWork,
  stageNames,
} from '../../src/selftest/stage.js';

type Body = (work: StageWork) => Promise<void>;

const passes: Body = async () => undefined;
const fails: Body = async () => {
  throw new KfdError('E_GPU_IO', 'sdma: no answer', { hint: 'reset it' });
};

function stage(name: StageName, run: Body, usesGpu = true): Stage {
  return { name, usesGpu, run };
}

/** Runs with a clock that goes a millisecond with every look. */
async function runAll(
  stages: readonly Stage[],
  { mayUseGpu = async () => true, signal = new AbortController().signal } = {},
) {
  let clock = 0;
  const now = () => {
    clock += 1000;
    return clock;
  };
  return runStages(stages, { signal, now, mayUseGpu });
}

const statuses = (results: readonly { readonly status: string }[]) =>
  results.map(({ status }) => status);

test('stages run in order until one fails; the rest are named', async () => {
  const ran: string[] = [];
  const noted =
    (name: string, body: Body): Body =>
    async (work) => {
      ran.push(name);
      await body(work);
    };
  const results = await runAll([
    stage('host', noted('host', passes), false),
    stage('copy', noted('copy', fails)),
    stage('queues', noted('queues', passes)),
  ]);
  assert.deepEqual(ran, ['host', 'copy']);
  assert.deepEqual(statuses(results), ['passed', 'failed', 'not_run']);
  const [host, copy, queues] = results;
  assert.equal(host?.us, 1000);
  assert.deepEqual(
    [copy?.code, copy?.reason, copy?.hint],
    ['E_GPU_IO', 'sdma: no answer', 'reset it'],
  );
  assert.equal(queues?.reason, 'stage copy failed');
});

test('a failure without a hint gets one for its stage, also a bug', async () => {
  for (const name of stageNames) {
    const bug: Body = async () => {
      throw new TypeError('x is undefined');
    };
    const [result] = await runAll([stage(name, bug)]);
    assert.equal(result?.code, 'E_INTERNAL', name);
    assert.match(result?.hint ?? '', /\S/, name);
  }
});

test('a stage that has nothing to try is skipped, and the next one runs', async () => {
  const skips: Body = async () => {
    throw new Skipped('no podman here');
  };
  const results = await runAll([stage('queues', skips), stage('pause', passes)]);
  assert.deepEqual(statuses(results), ['skipped', 'passed']);
  assert.equal(results[0]?.reason, 'no podman here');
  assert.equal(results[0]?.code, undefined);
});

test('what was done is undone backwards, after a success and after a failure', async () => {
  for (const end of [passes, fails]) {
    const undone: string[] = [];
    const body: Body = async (work) => {
      work.undo('first', async () => void undone.push('first'));
      work.undo('second', async () => void undone.push('second'));
      await end(work);
    };
    await runAll([stage('queues', body)]);
    assert.deepEqual(undone, ['second', 'first']);
  }
});

test('an undo that fails does not stop the others, and fails a stage that had passed', async () => {
  const undone: string[] = [];
  const body =
    (end: Body): Body =>
    async (work) => {
      work.undo('container', async () => void undone.push('container'));
      work.undo('image', async () => {
        throw new KfdError('E_IO', 'image: in use');
      });
      await end(work);
    };
  const [passed] = await runAll([stage('pause', body(passes))]);
  assert.deepEqual([passed?.status, passed?.reason, undone.length], ['failed', 'image: in use', 1]);
  const [failed] = await runAll([stage('pause', body(fails))]);
  assert.deepEqual([failed?.reason, undone.length], ['sdma: no answer', 2]);
  assert.deepEqual(
    failed?.steps.map(({ name }) => name),
    ['undo image'],
  );
});

test('logs are read of a stage that fails, before anything is undone', async () => {
  let removed = false;
  const body =
    (end: Body): Body =>
    async (work) => {
      work.undo('folder', async () => {
        removed = true;
      });
      work.logOnFailure('dump.log', async () => (removed ? 'too late' : 'Error (x)'));
      work.logOnFailure('none', async () => undefined);
      work.logOnFailure('broken', async () => {
        throw new Error('no such file');
      });
      await end(work);
    };
  const [failed] = await runAll([stage('pause', body(fails))]);
  assert.deepEqual(failed?.logs, [{ name: 'dump.log', text: 'Error (x)' }]);
  removed = false;
  const [passed] = await runAll([stage('pause', body(passes))]);
  assert.deepEqual(passed?.logs, []);
});

test('the operator is asked once, before the first stage that uses the GPU', async () => {
  for (const yes of [true, false]) {
    const order: string[] = [];
    const noting =
      (name: string): Body =>
      async () =>
        void order.push(name);
    const mayUseGpu = async () => {
      order.push('asked');
      return yes;
    };
    const stages = [
      stage('host', noting('host'), false),
      stage('copy', noting('copy')),
      stage('queues', noting('queues')),
    ];
    const results = await runAll(stages, { mayUseGpu });
    assert.deepEqual(order, yes ? ['host', 'asked', 'copy', 'queues'] : ['host', 'asked']);
    assert.deepEqual(statuses(results).at(-1), yes ? 'passed' : 'not_run');
  }
});

test('an interruption ends the running stage, undoes it, and runs no other', async () => {
  const controller = new AbortController();
  let undone = false;
  const body: Body = async (work) => {
    work.undo('process', async () => {
      undone = true;
    });
    controller.abort();
    assert.ok(work.signal.aborted);
    throw new KfdError('E_CANCELLED', 'copy: interrupted');
  };
  const stages = [stage('copy', body), stage('queues', passes)];
  const results = await runAll(stages, { signal: controller.signal });
  assert.deepEqual([statuses(results), undone], [['failed', 'not_run'], true]);
  const aborted = await runAll([stage('host', passes, false)], { signal: AbortSignal.abort() });
  assert.deepEqual(statuses(aborted), ['not_run']);
});

test('--stages: any order and spaces, host always first, unknown names refused', () => {
  assert.deepEqual(selectedStages(undefined), [...stageNames]);
  assert.deepEqual(selectedStages('pause, copy'), ['host', 'copy', 'pause']);
  assert.deepEqual(selectedStages('host'), ['host']);
  for (const words of ['', 'copy,', 'Copy', 'all']) {
    assert.throws(
      () => selectedStages(words),
      (error: KfdError) => error.code === 'E_USAGE' && /host, copy/.test(error.hint ?? ''),
      words,
    );
  }
});
