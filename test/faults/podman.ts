/** Brings the container to where an operation begins, and judges where it left it. */

import { existsSync, rmSync } from 'node:fs';
import { attempt, run } from '../e2e/support/command.js';
import type { Engine } from '../e2e/support/container.js';
import { type Operation, operations, type PodmanOperation } from './operations.js';
import type { OperationName } from './row.js';
import type { Judged, Struck, Subject } from './subject.js';
import { isFrozen, standsStill } from './support/frozen.js';
import { Job } from './support/job.js';
import { objectsLeft } from './support/leftovers.js';
import type { Ended } from './support/program.js';
import { reasonOf } from './support/reasons.js';

/** One engine's container, from row to row. */
export class Podman implements Subject {
  readonly #engine: Engine;
  #job: Job | undefined;
  /** Rounds at the checkpoints `base` and `later`, once they are there. */
  #floors: { base?: number; later?: number } = {};

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async begin(name: OperationName): Promise<{ words: string[]; job: Job }> {
    const operation = operations[name as PodmanOperation];
    const job = await this.#prepare(operation);
    return { words: operation.words(job), job };
  }

  async #prepare({ kind, to }: Operation): Promise<Job> {
    const job = await this.#running();
    rmSync(job.tried, { force: true });
    if (kind === 'restore' && to !== 'place')
      await this.#save(job, to === 'parent' ? 'later' : 'base');
    if (kind === 'checkpoint' && to === 'parent') await this.#save(job, 'base');
    // With --leave-running, podman keeps an image that it has exported.
    job.forgetImage();
    if (kind === 'checkpoint') {
      await job.settled();
      return job;
    }
    if (to === 'place') {
      job.floor = await job.rounds();
      await run('podman', 'container', 'checkpoint', job.container.name);
      return job;
    }
    await job.remove();
    job.floor = this.#floors[to === 'parent' ? 'later' : 'base'] ?? 0;
    return job;
  }

  async judge(name: OperationName, ended: Ended, { task: taskIsStruck }: Struck): Promise<Judged> {
    const operation: Operation = operations[name as PodmanOperation];
    const job = this.#job;
    if (job === undefined) throw new Error('there is no container');
    const success = ended.status === 0;
    if (operation.kind === 'restore')
      return this.#afterRestore(job, operation, success, taskIsStruck);
    const status = await job.status();
    if (success) return this.#afterSuccess(job, operation, status, taskIsStruck);
    if (status === 'running' || status === 'paused') return this.#afterFailure(job, status);
    return this.#afterStop(job, operation, status, taskIsStruck);
  }

  async forget(): Promise<void> {
    await this.#job?.remove();
    this.#job = undefined;
    this.#floors = {};
  }

  /** The running container. */
  async #running(): Promise<Job> {
    if (this.#job === undefined) {
      this.#job = await Job.start(this.#engine);
      return this.#job;
    }
    if ((await this.#job.status()) === 'running') return this.#job;
    await this.#job.remove();
    if (this.#floors.base === undefined) {
      this.#job = await Job.start(this.#engine);
    } else {
      await run('podman', 'container', 'restore', '--import', this.#job.base);
    }
    return this.#job;
  }

  /** Takes the checkpoint `base`, or `later` without what `base` holds, unless it is there. */
  async #save(job: Job, what: 'base' | 'later'): Promise<void> {
    if (this.#floors[what] !== undefined) return;
    if (what === 'later') await this.#save(job, 'base');
    const floor = await job.rounds();
    const flags = ['--leave-running', '--compress', 'none', '--export', job[what]];
    const { name } = job.container;
    rmSync(job[what], { force: true });
    if (what === 'base') await run('podman', 'container', 'checkpoint', ...flags, name);
    else await run('kfd-checkpoint', 'checkpoint', '--quiet', '--parent', job.base, name, ...flags);
    this.#floors[what] = floor;
  }

  async #afterSuccess(
    job: Job,
    operation: Operation,
    status: string,
    taskIsStruck: boolean,
  ): Promise<Judged> {
    const problems: string[] = [];
    // A signal that came while the tree was frozen ends its process afterwards.
    if (operation.leaves && !(taskIsStruck && status === 'exited')) {
      if (status !== 'running') problems.push(`success, and the container is ${status}`);
      else push(problems, await job.wrong());
    }
    const restore = this.#restoreOf(job, operation);
    if (operation.to !== 'place') {
      if (!existsSync(job.tried))
        return { outcome: 'success', problems: ['success without an archive'] };
      await job.remove();
      problems.push(...(await objectsLeft()));
    }
    const restored = await attempt(...restore);
    if (restored.status !== 0)
      problems.push(`success, and no restore: ${reasonOf(job, 'restore', restored.stderr)}`);
    else {
      const wrong = await job.wrong();
      // A signal that came while the tree was frozen is in the image, and ends its process after the restore.
      if (wrong !== undefined && taskIsStruck && (await job.status()) === 'exited')
        return { outcome: 'saved, restores, ends as it was told', problems };
      push(problems, wrong);
    }
    return { outcome: 'saved, restores', problems };
  }

  /** The container goes on, nothing of the checkpoint stays, the next one works. */
  async #afterFailure(job: Job, status: string): Promise<Judged> {
    const problems: string[] = [];
    if (status === 'paused' || (await isFrozen(job.container.name))) {
      problems.push(await standsStill());
      await job.goOn();
    }
    push(problems, await job.wrong());
    push(problems, job.otherObjects());
    const files = job.imageFiles();
    if (files.length > 0) problems.push(`image files stay: ${files.join(' ')}`);
    const next = operations.leave;
    rmSync(job.tried, { force: true });
    const [program = '', ...args] = next.words(job);
    const saved = await attempt(program, ...args);
    if (saved.status !== 0)
      problems.push(`the next checkpoint fails: ${reasonOf(job, 'dump', saved.stderr)}`);
    else {
      const verified = await attempt('kfd-checkpoint', 'verify', '--quiet', job.tried);
      if (verified.status !== 0) problems.push(`the next archive: ${verified.stderr.slice(-300)}`);
      push(problems, await job.wrong());
    }
    return { outcome: 'failed, continues', problems };
  }

  /** Nobody got a success and the container has stopped: its image is all there is. */
  async #afterStop(
    job: Job,
    operation: Operation,
    status: string,
    taskIsStruck: boolean,
  ): Promise<Judged> {
    const [program, ...args] = this.#restoreOf(
      job,
      { ...operation, to: operation.to === 'parent' ? 'parent' : 'place' },
      true,
    );
    const restored = await attempt(program, ...args);
    const problems: string[] = [];
    if (restored.status === 0) {
      push(problems, await job.wrong());
      return { outcome: 'stopped, restores', problems };
    }
    const lost = reasonOf(job, 'restore', restored.stderr);
    await job.remove();
    problems.push(...(await objectsLeft()));
    if (!taskIsStruck) problems.push(`lost: it is ${status}, and ${lost}`);
    return { outcome: taskIsStruck ? 'ended, as it was killed' : 'lost', problems };
  }

  /** A failure leaves nothing that runs, and the same restore works afterwards. */
  async #afterRestore(
    job: Job,
    operation: Operation,
    success: boolean,
    taskIsStruck: boolean,
  ): Promise<Judged> {
    const problems: string[] = [];
    const status = await job.status();
    if (success && !(taskIsStruck && status !== 'running')) {
      push(problems, await job.wrong());
      return { outcome: 'restored', problems };
    }
    if (status === 'running' && !taskIsStruck) {
      // Whoever asked is gone, or has failed after the container ran.
      push(problems, await job.wrong());
      if (problems.length === 0) return { outcome: 'failed, runs', problems };
    }
    if (operation.to !== 'place') await job.remove();
    if (await job.isUnknown()) {
      const told = operation.to === 'place' ? await this.#restoreUnknown(job) : undefined;
      if (told === 'restored') {
        push(problems, await job.wrong());
        return { outcome: 'failed, kfd-checkpoint restores', problems };
      }
      problems.push('it runs on, and podman does not know it');
      push(problems, told);
      await job.endUnknown();
    }
    problems.push(...(await objectsLeft()));
    const [program = '', ...args] = operation.words(job);
    const again = await attempt(program, ...args);
    if (again.status !== 0)
      problems.push(`a retry fails: ${reasonOf(job, 'restore', again.stderr)}`);
    else push(problems, await job.wrong());
    return { outcome: 'failed, a retry restores', problems };
  }

  /**
   * What is left at the runtime does not block our own verb, which names it where it runs. Returns "restored", or what
   * is wrong.
   */
  async #restoreUnknown(job: Job): Promise<string | undefined> {
    const { name } = job.container;
    const runs = await job.runsUnknown();
    const { status, stderr } = await attempt(
      'kfd-checkpoint',
      'restore',
      '--quiet',
      name,
      '--keep',
    );
    if (runs) return /podman does not know it/.test(stderr) ? undefined : `not named: ${stderr}`;
    return status === 0 ? 'restored' : `stays in the way: ${stderr.slice(-600)}`;
  }

  /** `image`: from the container's own folder, whatever the operation was to make. */
  #restoreOf(job: Job, { to }: Operation, image = false): [string, ...string[]] {
    const from = image || to === 'place' ? job.container.name : job.tried;
    if (to === 'parent')
      return ['kfd-checkpoint', 'restore', '--quiet', '--parent', job.base, from];
    if (to === 'place') return ['podman', 'container', 'restore', '--keep', from];
    return ['podman', 'container', 'restore', '--import', from];
  }
}

function push(problems: string[], problem: string | undefined): void {
  if (problem !== undefined) problems.push(problem);
}
