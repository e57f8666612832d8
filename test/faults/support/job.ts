/** The container that podman's operations work on: small, and what it holds can be judged. */

import { existsSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { archivePath } from '../../e2e/support/archive.js';
import { attempt, run, until } from '../../e2e/support/command.js';
import { Container, counter, type Engine } from '../../e2e/support/container.js';
import { gpuObjects, steadyObjects } from '../../e2e/support/gpu.js';
import { imageFiles } from '../../e2e/support/image-files.js';
import { folder as pointsFolder } from './points.js';

const secondsToAnswer = 40;
const secondsToRemove = 40;

export class Job {
  readonly container: Container;
  /** Of a checkpoint without a fault. */
  readonly base: string;
  /** Of a later one, without what the first holds. */
  readonly later: string;
  /** Of the checkpoint that is tried. */
  readonly tried: string;
  /** A right container has made as many rounds. */
  floor = 0;
  #objects = '';

  private constructor(container: Container) {
    this.container = container;
    this.base = archivePath(container.engine, 'base.tar');
    this.later = archivePath(container.engine, 'later.tar');
    this.tried = archivePath(container.engine, 'tried/tried.tar');
  }

  static async start(engine: Engine): Promise<Job> {
    const job = new Job(
      await Container.start({
        engine,
        flags: ['-v', `${pointsFolder}:${pointsFolder}`],
        worker: ['--vram-mib', '4', '--step-ms', '20'],
      }),
    );
    await job.settled();
    return job;
  }

  /** Remembers what the running container has, and how far it is. */
  async settled(): Promise<void> {
    this.floor = await this.rounds();
    this.#objects = objects();
  }

  /** Rounds that the GPU has made. */
  async rounds(): Promise<number> {
    return counter(await this.#ask('status'));
  }

  status(): Promise<string> {
    return attempt('podman', 'inspect', '-f', '{{.State.Status}}', this.container.name).then(
      ({ status, stdout }) => (status === 0 ? stdout : 'none'),
    );
  }

  /** The way out that docs/troubleshooting.md has, where podman has let it stand still. */
  async goOn(): Promise<void> {
    const { name } = this.container;
    if ((await this.status()) === 'running') await run('podman', 'pause', name);
    await run('podman', 'unpause', name);
  }

  /** What is wrong with the running container; nothing if it computes, with contents not older than they were. */
  async wrong(): Promise<string | undefined> {
    try {
      const before = counter(await this.#ask('status'));
      const said = await this.#ask('verify');
      if (!said.startsWith('verified')) return `contents: ${said}`;
      if (!(before >= this.floor)) return `old contents: round ${before} after ${this.floor}`;
      for (let tries = 0; tries < 40; tries++) {
        if (counter(await this.#ask('status')) > before) return undefined;
      }
      return 'its GPU stands still';
    } catch (error) {
      return `no answer: ${(error as Error).message}`;
    }
  }

  /** The running container has other objects on the GPU than it had. */
  otherObjects(): string | undefined {
    const now = objects();
    return now === this.#objects ? undefined : `${now} instead of ${this.#objects}`;
  }

  /** The container's own image folder. */
  get image(): string {
    return join(this.container.bundle, 'checkpoint');
  }

  forgetImage(): void {
    rmSync(this.image, { recursive: true, force: true });
  }

  /** Files of ours there. */
  imageFiles(): string[] {
    return imageFiles(this.image);
  }

  /** Takes the container away; its image in place goes with it. */
  async remove(): Promise<void> {
    const { name } = this.container;
    let said = '';
    const gone = async () => {
      said = (await attempt('podman', 'rm', '-f', '-t', '0', name)).stderr;
      return (await attempt('podman', 'container', 'exists', name)).status === 1;
    };
    await until(`the end of ${name}`, gone, secondsToRemove).catch(() => {
      throw new Error(`podman rm: ${said}`);
    });
  }

  /** The runtime has the container, and podman says that it has stopped or is not there. */
  async isUnknown(): Promise<boolean> {
    const { engine } = this.container;
    if ((await this.status()) === 'running') return false;
    return existsSync(join('/run', engine, this.#id));
  }

  /** It has processes there. */
  async runsUnknown(): Promise<boolean> {
    const { status, stdout } = await attempt(this.container.engine, 'state', this.#id);
    return status === 0 && /"status": ?"running"/.test(stdout);
  }

  /** The way out that docs/troubleshooting.md has. */
  async endUnknown(): Promise<void> {
    await run(this.container.engine, 'delete', '--force', this.#id);
  }

  get #id(): string {
    return basename(dirname(this.container.bundle));
  }

  #ask(command: string): Promise<string> {
    return this.container.control.ask(command, secondsToAnswer);
  }
}

function objects(): string {
  const now = gpuObjects();
  return steadyObjects.map((name) => `${name}=${now[name]}`).join(' ');
}
