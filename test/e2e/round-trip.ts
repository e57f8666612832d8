/** The archive takes a GPU container away and brings it back. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { until } from './support/command.js';
import { Container, type Engine } from './support/container.js';
import { losesDispatches } from './support/gpu.js';
import { type Operation, sessionEnd, sessionLog } from './support/session.js';
import { scenario } from './support/suite.js';

const worker = ['--vram-mib', '32', '--host-mib', '8', '--pending-barrier', '--events-waiter'];

interface Trip {
  readonly engine: Engine;
  readonly network: 'none' | 'bridge';
  readonly compress: 'gzip' | 'zstd';
  readonly command?: readonly string[];
  /** A dispatch runs all the while: both operations fall into its middle. */
  readonly dispatch?: boolean;
}

/** On the GPU, where no time passes while it is paused: far longer than the scenario. */
const dispatchMs = 200_000;

async function roundTrip(trip: Trip): Promise<void> {
  const archive = archivePath(trip.engine, `job.tar.${trip.compress}`);
  const job = await Container.start({
    engine: trip.engine,
    network: trip.network,
    ...(trip.command === undefined
      ? { worker: trip.dispatch ? [...worker, '--dispatch-ms', String(dispatchMs)] : worker }
      : { command: trip.command }),
  });
  const begun = trip.dispatch ? await until('the dispatch', () => dispatched(job, 0), 20) : 0;
  const saved = await job.checkpoint('--keep', '--compress', trip.compress, '--export', archive);
  assert.equal(saved.status, 0, saved.stderr);
  await assertTimings(job, 'dump');
  assertCopyEngine(job, 'dump');
  await job.remove();

  const restored = await job.restore('--keep', '--import', archive);
  assert.equal(restored.status, 0, restored.stderr);
  await assertTimings(job, 'restore');
  assertCopyEngine(job, 'restore');
  await assertNoForeignDescriptors(job);
  if (trip.dispatch) await assertDispatchGoesOn(job, begun);
  const answer = await job.control.ask('verify');
  assert.match(answer, /^verified bytes=33554432 barrier=completed .*waiter=woken/);
  assert.match(await job.control.ask('churn'), /^churned /);
  assert.match(await job.control.ask('exit'), /^exiting /);
}

/**
 * Steps the worker's dispatch has done, of 256, once there are more than `steps`. The worker has looked that each was
 * done once.
 */
async function dispatched(job: Container, steps: number): Promise<number | undefined> {
  const now = Number(/ dispatch=(\d+)\/256/.exec(await job.control.ask('status'))?.[1]);
  return now > steps ? now : undefined;
}

/** It began before the checkpoint, with `begun` steps done, and was not begun anew. */
async function assertDispatchGoesOn(job: Container, begun: number): Promise<void> {
  const restored = await until('the restored dispatch', () => dispatched(job, begun - 1), 5);
  const later = await until('the dispatch to continue', () => dispatched(job, restored), 20);
  assert.ok(later < 256, 'the dispatch was over: it takes too little time');
}

/** The phases of a session sum to its wall time within 2 %. */
async function assertTimings(job: Container, operation: Operation): Promise<void> {
  const timings = (await sessionEnd(job, operation)).timings_us ?? {};
  const overlapping = ['total', 'drain', 'drain_overlapped', 'upload', 'upload_overlapped'];
  const phases = Object.entries(timings).filter(([name]) => !overlapping.includes(name));
  const sum = phases.reduce((total, [, us]) => total + us, 0);
  const total = timings['total'] ?? 0;
  assert.ok(total > 0 && Math.abs(sum - total) <= total * 0.02, JSON.stringify(timings));
}

/** Contents were moved by SDMA: a session that cannot use it takes the CPU without a word. */
function assertCopyEngine(job: Container, operation: Operation): void {
  const moved = sessionLog(job, operation).filter(({ msg }) => /^(drained|uploaded)$/.test(msg));
  const results = moved.map((line) => line['result'] as { engine: string; slowest: string });
  assert.deepEqual(
    results.map(({ engine }) => engine),
    ['sdma'],
  );
  assert.match(results[0]?.slowest ?? '', /^(copy|file|code)$/);
}

/** The restored program has the descriptors it had: stdio, KFD, its eventfd, one render node. */
async function assertNoForeignDescriptors(job: Container): Promise<void> {
  const worker = workerPid(job.pid());
  const open = readdirSync(`/proc/${worker}/fd`).length;
  assert.equal(open, 6, `descriptors of the restored program: ${open}`);
}

/** The GPU program: the container's first process, or the child of the shell that is. */
function workerPid(first: number): number {
  const children = readdirSync(`/proc/${first}/task`).flatMap((task) =>
    readFileLines(`/proc/${first}/task/${task}/children`),
  );
  return children[0] ?? first;
}

function readFileLines(path: string): number[] {
  return readFileSync(path, 'utf8')
    .trim()
    .split(' ')
    .filter((word) => word !== '')
    .map(Number);
}

// Uncompressed and in place: cannot-restore and in-place, with a root task.
scenario(
  'root task in the middle of a dispatch, no network, gzip',
  ({ engine }) => roundTrip({ engine, network: 'none', compress: 'gzip', dispatch: true }),
  losesDispatches ? { skip: 'Linux 7.3.4 saves no control stack on gfx9: docs/kernels.md' } : {},
);
scenario('child of a shell, bridge, zstd', ({ engine }) =>
  roundTrip({
    engine,
    network: 'bridge',
    compress: 'zstd',
    command: ['sh', '-c', `gpu-worker ${worker.join(' ')}; echo ended`],
  }),
);
