/** A program that plays that of the self-test, so that stages run without a GPU. */

import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { run } from '../../src/os/exec.js';
import type { Bench, TestGpu } from '../../src/selftest/bench.js';
import { runStages } from '../../src/selftest/run.js';
import type { Stage, StageResult } from '../../src/selftest/stage.js';
import { programPath } from '../../src/selftest/worker.js';
import { temporaryFolder } from './paths.js';

/** What it does wrong. */
export type Fault = 'no start' | 'dies' | 'stands still' | 'finds damage' | 'is silent' | 'is slow';

/** It speaks as native/selftest/mailbox.cc does. */
const source = (fault: Fault | undefined) => `#!${process.execPath}
const fs = require('node:fs');
const fault = ${JSON.stringify(fault ?? null)};
const folder = process.argv[process.argv.indexOf('--folder') + 1];
const gpus = process.argv.filter((word) => word === '--render').length;
let rounds = 5;
let orders = 0;
const answer = (id, result, more) =>
  fs.appendFileSync(folder + '/answers', JSON.stringify({ id, result, ...more }) + '\\n');
const state = () => ({ rounds: Array(gpus).fill(rounds), busy: true, parts: ['contents', 'sdma'] });
fs.appendFileSync(folder + '/arguments', process.argv.slice(2).join(' ') + '\\n');
if (fault === 'no start') {
  answer('', 'failed', { reason: 'renderD128: KFD CREATE_QUEUE of AQL: Invalid argument' });
  process.exit(1);
}
answer('', 'ready', state());
setInterval(() => {
  if (!fs.existsSync(folder)) process.exit(0);
  if (!fs.existsSync(folder + '/order')) return;
  const [id, verb] = fs.readFileSync(folder + '/order', 'utf8').trim().split(' ');
  fs.unlinkSync(folder + '/order');
  if (fault === 'dies') process.exit(7);
  if (fault === 'is silent') return;
  orders += 1;
  if (fault !== 'stands still' && (fault !== 'is slow' || orders % 3 === 0)) rounds += 1;
  if (verb === 'verify' && fault === 'finds damage')
    answer(id, 'failed', { reason: 'renderD128: VRAM: byte 5 is 0x01, expected 0x02' });
  else answer(id, verb === 'verify' ? 'verified' : 'runs', state());
  if (verb === 'exit') process.exit(0);
}, 2);
`;

export const gpu = (ordinal: number): TestGpu => ({
  ordinal,
  gpuId: 100 + ordinal,
  minor: 128 + ordinal,
  svm: false,
});

/** A bench whose installation has that program. */
export async function benchWith(
  t: TestContext,
  fault?: Fault,
  over: Partial<Bench> = {},
): Promise<Bench> {
  const prefix = await temporaryFolder(t);
  const path = programPath(prefix);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, source(fault));
  await chmod(path, 0o755);
  const folder = join(prefix, 'work');
  await mkdir(folder);
  return { gpus: [gpu(0), gpu(1)], bytes: 2 ** 20, prefix, folder, run, ...over };
}

export async function runStage(
  stage: Stage,
  signal = new AbortController().signal,
): Promise<StageResult> {
  const [result] = await runStages([stage], {
    signal,
    now: () => performance.now() * 1000,
    mayUseGpu: async () => true,
  });
  assert.ok(result !== undefined);
  return result;
}
