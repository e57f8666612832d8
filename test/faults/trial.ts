/** Runs one row: the operation, the faults at their moments, and the invariants afterwards. */

import { mkdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { run, until } from '../e2e/support/command.js';
import { heldWith } from './moments.js';
import { nameOf, type Result, type Row, type Step } from './row.js';
import type { Stage } from './stages/list.js';
import type { Judged, Subject } from './subject.js';
import { conditions, temporary } from './support/conditions.js';
import { Evidence } from './support/evidence.js';
import type { Job } from './support/job.js';
import { leftovers, newComplaints, removeRoots, workersEnd } from './support/leftovers.js';
import { holdAt, reached, release, releaseAll } from './support/points.js';
import { type Ended, Program } from './support/program.js';
import { find } from './support/victims.js';
import { upstreamReason } from './upstream.js';

/** For an operation, of which most take some seconds. */
const limitS = 75;
const stopMs = 3000;
const workersS = 45;
const leftoverS = 10;
/** For what a killed daemon causes elsewhere. */
const daemonS = 20;

class Trial {
  readonly #row: Row;
  readonly #job: Job | undefined;
  readonly #subject: Subject;
  readonly problems: string[] = [];
  readonly #undo: (() => Promise<void>)[] = [];
  readonly #limitS: number;

  constructor(row: Row, subject: Subject, job: Job | undefined) {
    this.#row = row;
    this.#subject = subject;
    this.#job = job;
    this.#limitS = subject.limitS ?? limitS;
  }

  async run(words: readonly string[]): Promise<Ended> {
    const staged = this.#row.steps.filter(({ stage }) => stage !== undefined);
    releaseAll();
    let program: Program | undefined;
    try {
      const atOnce = this.#row.steps.filter(({ stage }) => stage === undefined);
      for (const step of atOnce) if (typeof step.fault === 'string') await this.#strike(step, -1);
      const [first] = staged;
      if (first?.stage) hold(first.stage);
      program = new Program(words, this.#limitS, { TMPDIR: temporary });
      for (const step of atOnce)
        if (typeof step.fault !== 'string') await this.#soon(step, program);
      for (const [i, step] of staged.entries()) {
        if (!(await this.#at(step, staged[i + 1], program))) break;
      }
      return await program.ended;
    } finally {
      releaseAll();
      // The next row begins when this operation has ended.
      await program?.ended.catch(() => undefined);
      for (const undo of this.#undo.reverse()) {
        await undo().catch((error: unknown) => void this.problems.push(`undoing: ${error}`));
      }
    }
  }

  async #at(step: Step, next: Step | undefined, program: Program): Promise<boolean> {
    const { stage } = step;
    if (stage === undefined) return true;
    const here = await reached(stage, () => program.over, this.#limitS).catch(() => false);
    if (!here) {
      this.problems.push(`nobody came to ${stage}`);
      letGo(stage);
      return false;
    }
    if (next?.stage !== undefined) hold(next.stage);
    await this.#strike(step, program.pid, next?.stage);
    // A cancel takes effect at its own pace: it comes to the next point while this one is held.
    if (step.fault === 'cancelled' && next?.stage !== undefined)
      await reached(next.stage, () => program.over, this.#limitS).catch(() => false);
    letGo(stage);
    return true;
  }

  /** Strikes the victim as soon as CRIU works. */
  async #soon(step: Step, program: Program): Promise<void> {
    const { fault } = step;
    if (typeof fault === 'string') return;
    const here = () => program.over || find('criu', program.pid) !== undefined;
    await until('CRIU', here, this.#limitS, 5).catch(() => undefined);
    await this.#strike(step, program.pid);
  }

  async #strike({ fault, stage }: Step, started: number, next?: Stage): Promise<void> {
    if (typeof fault === 'string') {
      if (this.#job === undefined) throw new Error(`${fault}: for podman's containers alone`);
      this.#undo.push(await conditions[fault](this.#job));
      return;
    }
    if (fault.victim === 'daemon' && fault.signal === 'SIGKILL') {
      // What its end causes comes before another daemon does.
      const caused = async () => next !== undefined && reached(next, () => false, daemonS);
      await this.#subject.restartDaemon?.(() => caused().catch(() => false));
      return;
    }
    const pid = find(fault.victim, started);
    if (pid === undefined) {
      this.problems.push(`there is no ${fault.victim} at ${stage}`);
      return;
    }
    try {
      process.kill(pid, fault.signal);
    } catch (error) {
      this.problems.push(`${fault.victim} at ${stage}: ${(error as Error).message}`);
      return;
    }
    if (fault.signal !== 'SIGSTOP') return;
    if (stage !== undefined) letGo(stage);
    await delay(stopMs);
    try {
      process.kill(pid, 'SIGCONT');
    } catch {
      // Somebody has ended it.
    }
  }
}

function hold(stage: Stage): void {
  holdAt(stage);
  const other = heldWith[stage];
  if (other !== undefined) holdAt(other);
}

function letGo(stage: Stage): void {
  release(stage);
  const other = heldWith[stage];
  if (other !== undefined) release(other);
}

/**
 * Nobody is left who could take away what this victim had: the next session does, and so does `sessions`. Sessions
 * handle no signal.
 */
function isKilledLast({ steps }: Row): boolean {
  return steps.some(
    ({ stage, fault }) =>
      typeof fault !== 'string' &&
      ((/^(cli|source)$/.test(fault.victim) && fault.signal === 'SIGKILL') ||
        (fault.victim === 'session' && fault.signal !== 'SIGSTOP' && stage?.endsWith('.over'))),
  );
}

/** conmon passes SIGTERM on to the container's first process (conmon src/ctr_exit.c:on_sig_exit@c3f70a3). */
function isTaskStruck({ steps }: Row): boolean {
  return steps.some(
    ({ fault }) =>
      typeof fault !== 'string' &&
      (fault.victim === 'task' || (fault.victim === 'conmon' && fault.signal === 'SIGTERM')),
  );
}

const isClientStruck = ({ steps }: Row): boolean =>
  steps.some(({ fault }) => typeof fault !== 'string' && fault.victim === 'cli');

/** Runs it on this engine's container. */
export async function tryRow(row: Row, subject: Subject): Promise<Result> {
  const began = performance.now();
  mkdirSync(temporary, { recursive: true });
  const { words, job } = await subject.begin(row.operation, row);
  const trial = new Trial(row, subject, job);
  const ended = await trial.run(words);
  const problems = [...trial.problems];
  if (ended.hung) problems.push(`hangs: ended after ${subject.limitS ?? limitS} s`);
  // CRIU works on when the runtime or the engine has ended.
  await workersEnd(workersS);
  const evidence = new Evidence(job?.container.bundle);
  if (isKilledLast(row)) await run('kfd-checkpoint', 'sessions');
  problems.push(...(await leftovers(leftoverS)).map((what) => `left: ${what}`));
  await removeRoots();
  const judged: Judged = await subject
    .judge(row.operation, ended, { task: isTaskStruck(row), client: isClientStruck(row) })
    .catch((error: Error) => ({ outcome: 'not judged', problems: [error.message.slice(0, 300)] }));
  problems.push(...judged.problems, ...(await newComplaints()));
  const told = problems.map((problem) => ({ problem, reason: upstreamReason(row, problem) }));
  if (told.some(({ reason }) => reason === undefined)) evidence.keep(nameOf(row));
  const last = row.steps.at(-1);
  const fault = last?.fault;
  return {
    row: nameOf(row),
    operation: row.operation,
    engine: row.engine,
    victim: typeof fault === 'object' ? fault.victim : 'host',
    fault: typeof fault === 'object' ? fault.signal : (fault ?? ''),
    stage: last?.stage ?? 'before',
    outcome: judged.outcome,
    problems: told.filter(({ reason }) => reason === undefined).map(({ problem }) => problem),
    upstream: told.flatMap(({ problem, reason }) => (reason ? [`${problem} (${reason})`] : [])),
    sound: judged.problems.length === 0 && !ended.hung,
    seconds: Math.round((performance.now() - began) / 100) / 10,
    said: ended.stderr.split('\n').slice(-3).join(' | ').slice(0, 600),
  };
}
