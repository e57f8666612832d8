/** One container of containerd. What ctr says it has done is looked at afterwards. */

import { setTimeout as delay } from 'node:timers/promises';
import type { TaskName } from '../criu/task-link.js';
import { KfdError } from '../errors.js';
import type { Run } from '../os/exec.js';
import { killTask } from './cgroup.js';
import { Ctr, type TaskStatus } from './ctr.js';
import { recordImageName } from './record-image.js';

/** Where it must not run any longer there is less time than usually. */
const endMs = 10_000;
/** An attempt to end a task may come while its start is being given up. */
const attempts = 5;
const againMs = 500;

type State = 'runs' | 'paused' | 'stopped' | 'none';

/** A created task has no processes: a restore has not ended, or has failed. */
const states: Readonly<Record<Exclude<TaskStatus, 'UNKNOWN'>, State>> = {
  RUNNING: 'runs',
  PAUSING: 'runs',
  PAUSED: 'paused',
  CREATED: 'stopped',
  STOPPED: 'stopped',
};

export class ContainerdContainer {
  readonly #task: TaskName;
  readonly #id: string;
  readonly #root: string;
  readonly #ctr: Ctr;

  /** `root`: folder of the system. */
  constructor(task: TaskName, run: Run, root: string) {
    this.#task = task;
    this.#id = task.id;
    this.#root = root;
    this.#ctr = new Ctr(run, task.namespace);
  }

  async state(timeoutMs?: number): Promise<State> {
    for (let left = attempts; left > 0; left -= 1) {
      const status = await this.#ctr.status(this.#id, timeoutMs);
      if (status === undefined)
        return (await this.#ctr.record(this.#id)) === undefined ? 'none' : 'stopped';
      if (status !== 'UNKNOWN') return states[status];
      // Its shim is at work, and may end it.
      await delay(againMs);
    }
    throw this.#stays('containerd does not know its state');
  }

  async pause(): Promise<void> {
    try {
      if ((await this.state(endMs)) !== 'runs') return;
      await this.#try('task', 'pause', this.#id);
      if ((await this.state(endMs)) !== 'runs') return;
      await this.#try('task', 'kill', '--all', '--signal', 'SIGKILL', this.#id);
    } catch {
      // What containerd cannot do or say in time, the kernel can.
    }
    await killTask(this.#task, this.#root);
    if ((await this.state(endMs)) === 'runs') throw this.#stays('runs, and cannot be paused');
  }

  async unpause(): Promise<void> {
    if ((await this.state()) !== 'paused') return;
    await this.#ctr.ask(['task', 'resume', this.#id]);
    if ((await this.state()) === 'paused') throw this.#stays('stays paused');
  }

  /** With the image of its record, which a start that was killed has left. */
  async remove(): Promise<void> {
    try {
      await this.#try('image', 'rm', recordImageName(this.#id));
      for (let left = attempts; left > 0; left -= 1) {
        await this.#try('task', 'rm', '--force', this.#id);
        await this.#try('container', 'rm', this.#id);
        if ((await this.state(endMs)) === 'none') return;
      }
    } finally {
      // A containerd that was killed in the middle of a restore may not know of the processes.
      await killTask(this.#task, this.#root);
    }
    throw this.#stays('cannot be removed');
  }

  async forget(): Promise<void> {
    const state = await this.state();
    if (state === 'runs' || state === 'paused') throw this.#stays(`${state} again`);
    // Its status is that of the task.
    await this.#ctr.ask(['task', 'rm', this.#id]);
    await this.#ctr.ask(['container', 'rm', this.#id]);
    if ((await this.state()) !== 'none') throw this.#stays('cannot be removed');
  }

  /** What it cannot do in time is found by looking. */
  async #try(...words: string[]): Promise<void> {
    await this.#ctr.ask(words, endMs).catch(() => undefined);
  }

  #stays(what: string): KfdError {
    return new KfdError('E_HOST', `${this.#id}: ${what}`, {
      hint: 'run "ctr task ls" and look at the container',
    });
  }
}
