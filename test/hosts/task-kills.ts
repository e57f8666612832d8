/**
 * A task of containerd moves, and somebody who takes part is killed at a named point, on either host (test/faults).
 * Exactly one host runs it in the end. Both hosts have the test build, whose processes can be held there.
 */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { until } from '../e2e/support/command.js';
import { Containerd } from '../e2e/support/containerd.js';
import { meetComplaintThere, there } from '../e2e/support/host-b.js';
import type { Stage } from '../faults/stages/list.js';
import { MovingTask, on, startThere, stopThere, type Where } from './containerd-b.js';
import { begin, migrate, nothingLeft } from './support.js';

const stages = '/run/kfd-checkpoint-stages';
const journal = '/var/lib/kfd-checkpoint/migrations';
/** Seconds: the lease, and a command that goes on after it. */
const leaseS = 30;
const againS = 300;

/** Where each one runs, and how pkill finds it. A letter in brackets: pkill's own shell has another one. */
const victims = {
  source: ['here', "-f '[c]li/main.js migrate --engine'"],
  save: ['here', "-f '[c]li/main.js migrate-task .* save'"],
  ssh: ['here', "-f '^[s]sh .* migrate-target'"],
  criu: ['here', '-x criu'],
  target: ['there', "-f '[c]li/main.js migrate-target'"],
  contents: ['there', "-f '[c]li/main.js migrate-contents'"],
  guard: ['there', "-f '[c]li/main.js migrate-guard'"],
  start: ['there', "-f '[c]li/main.js migrate-task .* start'"],
  session: ['there', "-f '[s]ession/main.js'"],
  daemon: ['there', '-x containerd'],
} as const satisfies Record<string, readonly [Where, string]>;
type Victim = keyof typeof victims;

const lines: readonly (readonly [Stage, Victim])[] = [
  ['migrate-source.begun', 'target'],
  ['migrate-source.stopping', 'source'],
  ['plugin-dump.paused', 'save'],
  ['session-dump.draining', 'source'],
  ['session-dump.states', 'criu'],
  ['session-dump.manifest', 'ssh'],
  ['migrate-source.stopped', 'source'],
  ['migrate-target.streaming', 'contents'],
  ['migrate-target.taking', 'contents'],
  ['migrate-target.taking', 'source'],
  ['migrate-target.received', 'target'],
  ['migrate-guard.looked', 'guard'],
  ['migrate-source.granted', 'ssh'],
  ['migrate-target.starting', 'target'],
  ['plugin-restore.restoring', 'start'],
  ['session-restore.ready', 'daemon'],
  ['session-restore.gate', 'session'],
  ['migrate-target.resumed', 'source'],
  ['migrate-target.owned', 'target'],
  ['migrate-source.returning', 'source'],
];

const sideOf = (stage: Stage): Where =>
  /^(migrate-target|migrate-guard|session-restore|plugin-restore)\./.test(stage) ? 'there' : 'here';

const testBuild = 'bash /repo/packaging/install.sh /repo/build/stage-held.tar';
for (const where of ['here', 'there'] as const)
  await on(where, `${testBuild} && kfd-checkpoint configure && mkdir -p ${stages}`);
const containerd = await Containerd.start();
await startThere();
after(async () => {
  await stopThere();
  await containerd.stop();
});

const mount = `type=bind,src=${stages},dst=${stages},options=rbind:rw`;
const worker = ['--vram-mib', '8', '--step-ms', '100'];
const lease = ['--lease', `${leaseS}`];
const options = ['--engine', 'containerd', '--with-image', '--precopy', '0', ...lease];

let running: MovingTask | undefined;
let hasMoved = false;

/** A task that runs here: the last one, if it still does. */
async function task(): Promise<MovingTask> {
  running ??= await MovingTask.start('killed', worker, ['--mount', mount]);
  return running;
}

/** The restore there fails, so that the task comes back. */
const failing = (stage: Stage) => stage === 'migrate-source.returning';

async function kill(victim: Victim): Promise<void> {
  const [where, words] = victims[victim];
  await on(where, `pkill -KILL ${words}`);
  if (victim === 'daemon') await startThere();
}

/** Somebody stands there, or the command has ended without that. */
async function reached(stage: Stage, isOver: () => boolean): Promise<void> {
  const mark = `${stages}/${stage}.reached`;
  const words = `test ! -s ${mark} || echo yes`;
  await until(
    `a process at ${stage}`,
    async () => {
      if ((await on(sideOf(stage), words)) === 'yes') return true;
      if (isOver()) throw new Error(`nobody came to ${stage}`);
      return false;
    },
    120,
    100,
  );
}

/** `problem`: why nobody could be struck. `said`: by the command. */
async function struck(job: MovingTask, stage: Stage, victim: Victim) {
  let problem: Error | undefined;
  const first: Stage = failing(stage) ? 'session-restore.ready' : stage;
  for (const one of new Set([first, stage])) await on(sideOf(one), `: >${stages}/${one}`);
  const { said, ended } = begin(job, ...options);
  let isOver = false;
  void ended.then(() => {
    isOver = true;
  });
  try {
    if (first !== stage) {
      await reached(first, () => isOver);
      await kill('session');
      await on(sideOf(first), `rm ${stages}/${first}`);
    }
    await reached(stage, () => isOver);
    await kill(victim);
  } catch (error) {
    problem = error as Error;
  } finally {
    for (const where of ['here', 'there'] as const) await on(where, `rm -f ${stages}/*`);
  }
  await ended;
  return { problem, said: said.stderr };
}

/** The same command goes on with what is recorded, as docs/migration.md says. */
async function settled(job: MovingTask): Promise<string> {
  let said = '';
  for (let left = 3; left > 0; left -= 1) {
    if ((await on('here', `ls ${journal} | grep '\\.source\\.json$' || true`)) === '') break;
    said = (await migrate(job, '--engine', 'containerd')).stderr;
  }
  const atWork = `pgrep -f '[c]li/main.js migrate-(target|guard)' || true`;
  await until('the end of target and guard', async () => (await there(atWork)) === '', againS, 500);
  return said;
}

for (const [stage, victim] of lines) {
  test(`containerd: ${victim} is killed at ${stage}`, async () => {
    const job = await task();
    const { problem, said } = await struck(job, stage, victim);
    const later = await settled(job);
    const states = await job.states();
    const isHere = states === 'RUNNING here, none there';
    if (!isHere) running = undefined;
    try {
      assert.match(states, /^(RUNNING here, none there|none here, RUNNING there)$/, said + later);
      assert.match(await job.ask(isHere ? 'here' : 'there', 'verify'), /^verified /);
      assert.equal(problem?.message, undefined, said);
      process.stdout.write(`# ${victim} at ${stage}: ${states}\n`);
    } finally {
      if (!isHere) await job.remove();
    }
    if (isHere || hasMoved) return;
    hasMoved = true;
    await meetComplaintThere();
  });
}

test('containerd: what killed processes have left goes with the next move', async () => {
  const job = await task();
  const moved = await migrate(job, ...options);
  assert.equal(moved.status, 0, moved.stderr);
  assert.equal(await job.states(), 'none here, RUNNING there');
  assert.match(await job.ask('there', 'verify'), /^verified /);
  await job.remove();
  // A target keeps "owned" where the last word of the source was lost: src/migrate/README.md.
  await there(`cd ${journal} && grep -l '"owned"' *.target.json | xargs -r rm`);
  await nothingLeft();
});
