/** A container through containerd and our shim. */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { attempt, run, until } from '../e2e/support/command.js';
import {
  bundlesLeft,
  Containerd,
  nextRelease,
  shimsLeft,
  Task,
  temporary,
  temporaryImages,
} from '../e2e/support/containerd.js';
import type { daemons, OperationName } from './row.js';
import type { Judged, Struck, Subject } from './subject.js';
import { objectsLeft } from './support/leftovers.js';
import { folder as pointsFolder } from './support/points.js';
import type { Ended } from './support/program.js';

const id = 'tried';
/** For the end of such a pause. */
const pauseS = 5;
/** Images of checkpoints: one without a fault, and the one that is tried. */
const saved = 'localhost/saved';
const tried = 'localhost/tried';
const points = `type=bind,src=${pointsFolder},dst=${pointsFolder},options=rbind:rw`;

function save(image: string): string[] {
  return ['ctr', 'container', 'checkpoint', '--task', '--rw', id, image];
}

function restoreFrom(image: string): string[] {
  return ['ctr', 'container', 'restore', '--live', '--rw', id, image];
}

function words(list: readonly string[]): [string, ...string[]] {
  return list as [string, ...string[]];
}

export class ContainerdSubject implements Subject {
  readonly #release: (typeof daemons)[number];
  readonly #task = new Task(id);
  #daemon: Containerd | undefined;
  #hasSaved = false;

  constructor(release: (typeof daemons)[number]) {
    this.#release = release;
  }

  async begin(operation: OperationName): Promise<{ words: string[] }> {
    await this.#start();
    await attempt('ctr', 'images', 'rm', tried);
    if (operation === 'ctr-checkpoint') return { words: save(tried) };
    await this.#end();
    return { words: restoreFrom(saved) };
  }

  async judge(
    operation: OperationName,
    ended: Ended,
    { task: taskIsStruck, client }: Struck,
  ): Promise<Judged> {
    const problems: string[] = [];
    const status = await this.#settledStatus();
    const success = ended.status === 0;
    const outcome =
      operation === 'ctr-checkpoint'
        ? await this.#afterCheckpoint(success, status, taskIsStruck, problems)
        : await this.#afterRestore(success || (client && status === 'RUNNING'), status, problems);
    if (problems.length > 0 || status !== 'RUNNING') {
      await this.#end();
      problems.push(...(await this.#left()), ...(await objectsLeft()));
    }
    return { outcome, problems };
  }

  async forget(): Promise<void> {
    await this.#end();
    await attempt('ctr', 'images', 'rm', saved);
    this.#hasSaved = false;
    await this.#daemon?.stop();
    this.#daemon = undefined;
  }

  async restartDaemon(whileDown: () => Promise<unknown>): Promise<void> {
    await this.#daemon?.restartAfter(whileDown);
  }

  /** The container runs, and there is a checkpoint of it. */
  async #start(): Promise<void> {
    if (this.#daemon === undefined) {
      this.#daemon = await Containerd.start();
      if (this.#release === 'next containerd') await this.#daemon.restart(nextRelease);
    }
    if ((await this.#task.status()) === 'RUNNING') return;
    await this.#end();
    if (this.#hasSaved) {
      await run(...words(restoreFrom(saved)));
      return;
    }
    const flags = ['--mount', points];
    rmSync(this.#task.control.folder, { recursive: true, force: true });
    await run('ctr', ...this.#task.runWithGpu(flags, 'kfd-worker', '--memory', '--ordered'));
    await this.#task.control.ready();
    await run(...words(save(saved)));
    this.#hasSaved = true;
  }

  async #end(): Promise<void> {
    await this.#task.end();
    for (const name of temporaryImages()) rmSync(join(temporary, name), { recursive: true });
  }

  /** Once containerd knows how it is. The shim ends a pause of a caller who has gone, by its own calls. */
  async #settledStatus(): Promise<string> {
    const settled = (unsettled: readonly string[], seconds: number) =>
      until(
        'a state',
        async () => {
          const now = await this.#task.status();
          return !unsettled.includes(now) && now;
        },
        seconds,
      );
    const status = await settled(['UNKNOWN'], 90).catch(() => 'UNKNOWN');
    return status === 'PAUSED' ? settled(['PAUSED'], pauseS).catch(() => status) : status;
  }

  async #afterCheckpoint(
    success: boolean,
    status: string,
    taskIsStruck: boolean,
    problems: string[],
  ): Promise<string> {
    if (status === 'PAUSED') {
      problems.push('the container stays paused');
      await attempt('ctr', 'task', 'resume', id);
    }
    if (status === 'RUNNING' || status === 'PAUSED') await this.#verify(problems);
    else if (!taskIsStruck && success) problems.push(`success, and the container is ${status}`);
    if (success) {
      await this.#end();
      await this.#restore(tried, 'success, and no restore', problems);
      return 'saved, restores';
    }
    if (status !== 'RUNNING' && status !== 'PAUSED') return `failed, ended (${status})`;
    const next = await attempt(...words(save(tried)));
    if (next.status !== 0) problems.push(`the next checkpoint fails: ${next.stderr.slice(-200)}`);
    return 'failed, continues';
  }

  async #afterRestore(success: boolean, status: string, problems: string[]): Promise<string> {
    if (success) {
      await this.#verify(problems);
      return 'restored';
    }
    if (status === 'RUNNING') problems.push('a failed restore, and the container runs');
    await this.#end();
    const { stdout } = await attempt('pgrep', '-x', 'kfd-worker');
    if (stdout !== '') problems.push(`its program runs: ${stdout}`);
    await this.#restore(saved, 'a retry fails', problems);
    return 'failed, a retry restores';
  }

  async #restore(image: string, otherwise: string, problems: string[]): Promise<void> {
    const { status, stderr } = await attempt(...words(restoreFrom(image)));
    if (status === 0) await this.#verify(problems);
    else problems.push(`${otherwise}: ${stderr.slice(-200)}; ${image}: ${await partsOf(image)}`);
  }

  async #verify(problems: string[]): Promise<void> {
    const said = await this.#task.control.ask('verify', 40).catch((error: Error) => error.message);
    if (!said.startsWith('verified')) problems.push(`contents: ${said}`);
  }

  /** Of the shims, when no container is there. */
  async #left(): Promise<string[]> {
    await until('the end of the shims', async () => (await shimsLeft()).length === 0, 20).catch(
      () => undefined,
    );
    return [...(await shimsLeft()), ...bundlesLeft()].map((what) => `left: ${what}`);
  }
}

/** Media types of what a checkpoint image has. */
async function partsOf(image: string): Promise<string> {
  const listed = await attempt('ctr', 'images', 'ls', `name==${image}`);
  const digest = /sha256:[0-9a-f]{64}/.exec(listed.stdout)?.[0] ?? '';
  const index = await attempt('ctr', 'content', 'get', digest);
  return index.stdout.match(/"mediaType": ?"[^"]+"/g)?.join(' ') ?? listed.stdout + index.stderr;
}
