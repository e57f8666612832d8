/** Many containers whose sessions run at once, on a host that gives all of them little memory for copies. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { stagingFile } from '../../src/criu/state-folder.js';
import { native } from '../../src/native.js';
import { pieceMib } from '../../src/session/contents/staging.js';
import { controlSocketName } from '../../src/session/control/types.js';
import { attemptWithin, until } from '../e2e/support/command.js';
import { Container } from '../e2e/support/container.js';
import { configure } from '../e2e/support/product.js';
import { sessionPids } from '../e2e/support/session.js';
import { Evidence } from '../faults/support/evidence.js';
import { keptLogs } from './chain.js';
import type { Progress } from './progress.js';
import { gpuSample, hostSample, type Sample, settled } from './sample.js';

/** For all sessions together, MiB: every one of them gets its turn. */
const stagingMib = 64;
const limit = 3600;
const sessionsFolder = '/run/kfd-checkpoint';
/** Without SDMA: a GPU does not have a queue of it for each of so many programs. */
const program = ['kfd-worker', '--ordered'];

/** The greatest values while `body` runs. */
class Watch {
  sessions = 0;
  sessions_mib = 0;
  pinned_pages = 0;

  async during(body: Promise<unknown>): Promise<void> {
    let ended = false;
    const end = body.finally(() => {
      ended = true;
    });
    while (!ended) {
      await this.#look();
      await Promise.race([end, delay(500)]);
    }
    await end;
  }

  async #look(): Promise<void> {
    const pids = await sessionPids();
    this.sessions = Math.max(this.sessions, pids.length);
    this.sessions_mib = Math.max(this.sessions_mib, sum(pids.map(ownMib)));
    this.pinned_pages = Math.max(this.pinned_pages, gpuSample()['gpu_pinned_pages'] ?? 0);
  }
}

const sum = (values: readonly number[]) => values.reduce((all, one) => all + one, 0);

/** Memory of a process that no other one has, MiB; 0 when it has just ended. */
function ownMib(pid: number): number {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    const kib = [...text.matchAll(/^Private_\w+: +(\d+)/gm)].map(([, value]) => Number(value));
    return Math.round(sum(kib) / 1024);
  } catch {
    return 0;
  }
}

/** Enough rounds for growth() to judge. */
export const rounds = 13;

/** `count` containers go through all rounds; a sample for each round. */
export async function many(progress: Progress, count: number): Promise<void> {
  configure({
    staging_total_mib: stagingMib,
    staging_mib: 8,
    gate_timeout_s: limit,
    keep_logs: keptLogs,
  });
  const jobs: Container[] = [];
  while (jobs.length < count)
    jobs.push(await Container.start({ engine: 'crun', command: program }));
  while (!progress.done) progress.add(await round(jobs));
  // Contents stay wrong once they are. To compare them takes seconds of each GPU queue.
  const answers = await Promise.all(jobs.map((job) => job.control.ask('verify', 600)));
  for (const answer of answers) assert.match(answer, /^verified /);
  await Promise.all(jobs.map((job) => job.remove()));
  configure({});
}

async function round(jobs: readonly Container[]): Promise<Sample> {
  const saving = new Watch();
  const checkpoint_s = await timed(saving, jobs, 'checkpoint');
  const between = gpuSample();
  assert.ok(
    Object.values(between).every((value) => value === 0),
    `objects while all are saved: ${JSON.stringify(between)}`,
  );
  const restoring = new Watch();
  const restore_s = await timed(restoring, jobs, 'restore');
  for (const job of jobs) assert.match(await job.control.ask('status', 600), /^running /);
  await settled(jobs.length);
  return {
    checkpoint_s,
    restore_s,
    sessions_at_once: Math.max(saving.sessions, restoring.sessions),
    sessions_peak_mib: Math.max(saving.sessions_mib, restoring.sessions_mib),
    pinned_pages_peak: Math.max(saving.pinned_pages, restoring.pinned_pages),
    ...hostSample(),
    ...gpuSample(),
  };
}

/** Seconds until the last of them is done. */
async function timed(watch: Watch, jobs: readonly Container[], verb: Verb): Promise<number> {
  const began = performance.now();
  await watch.during(allAtOnce(jobs, verb));
  return (performance.now() - began) / 1000;
}

/** podman gives a restore up after 240 s (`libpod/oci_conmon_common.go:readConmonPipeData`), and no checkpoint. */
const gatheringS = { checkpoint: limit, restore: 120 } as const;

type Verb = keyof typeof gatheringS;

async function allAtOnce(jobs: readonly Container[], verb: Verb): Promise<void> {
  for (let done = 0; done < jobs.length; ) done += await groupAtOnce(jobs.slice(done), verb);
}

/**
 * Every session waits for memory until all of them are there, or the time for it is over: returns how many came. They
 * come one by one, each when the one before listens: podman fails ("database is locked") when it waits for other
 * podmans for 100 s, and a launcher when its session needs 120 s to start. Both happen when all of them start at once
 * on a slow machine.
 */
async function groupAtOnce(jobs: readonly Container[], verb: Verb): Promise<number> {
  const memory = await allStaging();
  const over = performance.now() + gatheringS[verb] * 1000;
  const ends: Promise<void>[] = [];
  try {
    for (const job of jobs) {
      const end = podman(verb, job);
      ends.push(end);
      const tooEarly = end.then(() => assert.fail(`${job.name}: its session did not wait`));
      await Promise.race([sessions(ends.length), tooEarly]);
      if (performance.now() > over) break;
    }
  } finally {
    memory.close();
  }
  await Promise.all(ends);
  return ends.length;
}

async function podman(verb: Verb, { name, bundle }: Container): Promise<void> {
  const done = await attemptWithin(limit, 'podman', 'container', verb, name);
  if (done.status !== 0) new Evidence(bundle).keep(name);
  assert.equal(done.status, 0, `${name}: ${done.stderr}`);
}

async function sessions(count: number): Promise<void> {
  await until(`${count} sessions`, () => listening() >= count, 300, 500);
}

/** Sessions that have started: whoever watches them finds their sockets. */
function listening(): number {
  const folders = existsSync(sessionsFolder) ? readdirSync(sessionsFolder) : [];
  return folders.filter((name) => existsSync(join(sessionsFolder, name, controlSocketName))).length;
}

/** Takes all memory that sessions could get, until it is closed. Another process may look at the locks at first. */
async function allStaging(): Promise<{ close(): void }> {
  const pieces = stagingMib / pieceMib;
  const request = { file: stagingFile, total: pieces, wanted: pieces, transfers: 1 };
  const claim = new (native().StagingClaim)({ ...request, session: process.pid });
  try {
    assert.equal(await until('all staging memory', () => claim.poll() || false), pieces);
  } catch (error) {
    claim.close();
    throw error;
  }
  return claim;
}
