/** Stage copy of the self-test: what is tried on which GPU, and what a failure says. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CopyTrialOptions, CopyTrialResult } from '../../src/addon.js';
import { KfdError } from '../../src/errors.js';
import { run } from '../../src/os/exec.js';
import type { TestGpu } from '../../src/selftest/bench.js';
import { runStages } from '../../src/selftest/run.js';
import { copyStage } from '../../src/selftest/stages/copy.js';

const gpu = (ordinal: number): TestGpu => ({
  ordinal,
  gpuId: 100 + ordinal,
  minor: 128 + ordinal,
  svm: false,
});

type Answer = (options: CopyTrialOptions) => Promise<CopyTrialResult>;

/** As fast as there are copies in flight. */
const works: Answer = async ({ slots, bytes }) => ({
  bytes,
  writeUs: bytes / slots,
  readUs: bytes / slots / 2,
});

async function copy(gpus: readonly TestGpu[], answer: Answer, byCpu = false) {
  const asked: CopyTrialOptions[] = [];
  const bench = { gpus, bytes: 1 << 20, prefix: '', folder: '', run };
  const tryCopies = async (options: CopyTrialOptions) => {
    asked.push(options);
    return answer(options);
  };
  const [result] = await runStages([copyStage({ bench, tryCopies, byCpu })], {
    signal: new AbortController().signal,
    now: () => 0,
    mayUseGpu: async () => true,
  });
  assert.ok(result !== undefined);
  return { asked, result };
}

test('each GPU alone with 1 to 32 copies in flight, then all at once; contents never repeat', async () => {
  const { asked, result } = await copy([gpu(0), gpu(1)], works);
  assert.equal(result.status, 'passed');
  const tried = asked.map(({ renderNode, slots }) => `${renderNode} ${slots}`);
  const counts = [1, 2, 4, 8, 16, 32];
  const alone = [128, 129].flatMap((minor) => counts.map((n) => `/dev/dri/renderD${minor} ${n}`));
  assert.deepEqual(tried, [...alone, '/dev/dri/renderD128 32', '/dev/dri/renderD129 32']);
  assert.ok(asked.every(({ engine }) => engine === 'sdma'));
  assert.equal(new Set(asked.map(({ seed }) => seed)).size, asked.length);
  const last = result.steps.at(-1);
  assert.deepEqual(last, { name: '2 GPUs at once, from VRAM', us: 2 ** 14, bytes: 2 ** 21 });
});

test('one GPU is not tried at once with others; the CPU copies only when asked', async () => {
  const { asked, result } = await copy([gpu(3)], works, true);
  assert.equal(result.steps.length, 14);
  assert.deepEqual(
    asked.filter(({ engine }) => engine === 'cpu').map(({ renderNode }) => renderNode),
    ['/dev/dri/renderD131'],
  );
  assert.equal(result.steps.at(-1)?.name, 'gpu 3, by the CPU, from VRAM');
});

test('a failure names the GPU, and says what to do', async () => {
  const cases: [string, string, RegExp][] = [
    ['/dev/dri/renderD129: VRAM: no 1 MiB to spare', 'E_VRAM', /--size/],
    ['copy trial: byte 5 came back as 0x01 instead of 0x00', 'E_GPU_IO', /report this/],
    ['amdgpu_cs_submit: Operation not permitted', 'E_GPU_IO', /kernel log/],
  ];
  for (const [message, code, hint] of cases) {
    const { result } = await copy([gpu(0), gpu(1)], async (options) => {
      if (options.renderNode.endsWith('129')) throw new KfdError('E_GPU_IO', message);
      return works(options);
    });
    assert.deepEqual([result.status, result.code], ['failed', code]);
    assert.equal(result.reason, `gpu 1: ${message}`);
    assert.match(result.hint ?? '', hint);
  }
});

test('of all at once none still runs when one of them has failed', async () => {
  let running = 0;
  const { result } = await copy([gpu(0), gpu(1)], async (options) => {
    if (options.seed <= 12) return works(options);
    running += 1;
    if (options.renderNode.endsWith('128')) {
      running -= 1;
      throw new KfdError('E_GPU_IO', 'hangs');
    }
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    return works(options);
  });
  assert.deepEqual([result.status, running], ['failed', 0]);
});
