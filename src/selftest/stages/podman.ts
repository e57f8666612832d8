/** Stage podman: containers are saved and restored in every way that podman has, with each OCI runtime. */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { versionOf } from '../../runtime/versions.js';
import type { Bench } from '../bench.js';
import type { ProgramState } from '../control.js';
import { type ContainerOptions, importImage, PodmanContainer } from '../podman.js';
import { fewBytes } from '../program.js';
import { Skipped, type Stage, type StageWork } from '../stage.js';

const runtimes = ['crun', 'runc'] as const;

/** `isSetUp`: `configure` was run for podman. */
export function podmanStage(bench: Bench, isSetUp: () => Promise<boolean>): Stage {
  return { name: 'podman', usesGpu: true, run: (work) => tryPodman(bench, isSetUp, work) };
}

async function tryPodman(bench: Bench, isSetUp: () => Promise<boolean>, work: StageWork) {
  if (!(await isSetUp())) throw new Skipped('podman is not set up: "kfd-checkpoint configure"');
  if ((await versionOf(bench.run, 'podman')) === undefined) throw new Skipped('no podman in PATH');
  const found: string[] = [];
  for (const name of runtimes) {
    if ((await versionOf(bench.run, name)) !== undefined) found.push(name);
  }
  if (found.length === 0) throw new Skipped('neither crun nor runc in PATH');
  await importImage(bench, work);
  for (const [at, runtime] of found.entries()) await withRuntime(runtime, at === 0, bench, work);
}

/** Rates are those of the first runtime: the same programs move contents under any. */
async function withRuntime(
  runtime: string,
  first: boolean,
  bench: Bench,
  work: StageWork,
): Promise<void> {
  const few = fewBytes(bench);
  const one = { runtime, gpus: bench.gpus.slice(0, 1), bytes: few };
  const trial = new Trial(bench, work);
  await trial.throughArchive(runtime, { ...one, bytes: first ? bench.bytes : few });
  await trial.inPlace(`${runtime}, in place`, one);
  await trial.leftRunning(`${runtime}, left running`, one);
  if (bench.exportsBuffers) {
    await trial.inPlace(`${runtime}, two processes`, { ...one, shares: true });
  }
  const two = bench.gpus.slice(0, 2);
  if (two.length === 2) await trial.inPlace(`${runtime}, two GPUs`, { ...one, gpus: two });
}

class Trial {
  readonly #bench: Bench;
  readonly #work: StageWork;

  constructor(bench: Bench, work: StageWork) {
    this.#bench = bench;
    this.#work = work;
  }

  async throughArchive(what: string, options: ContainerOptions): Promise<void> {
    const [container, before] = await this.#started(options);
    const archive = this.#archive();
    await container.checkpoint(what, '--compress', 'none', '--export', archive);
    await container.remove();
    await container.restore(what, archive);
    await this.#compared(container, before);
    await rm(archive);
  }

  async inPlace(what: string, options: ContainerOptions): Promise<void> {
    const [container, before] = await this.#started(options);
    await container.checkpoint(what);
    await container.restore(what);
    await this.#compared(container, before);
  }

  /** The container goes on; what was saved comes back when it is gone. */
  async leftRunning(what: string, options: ContainerOptions): Promise<void> {
    const [container, before] = await this.#started(options);
    const archive = this.#archive();
    const flags = ['--leave-running', '--compress', 'none', '--export', archive];
    await container.checkpoint(what, ...flags);
    await container.control.verified(before, container.gpus);
    await container.remove();
    await container.restore(what, archive);
    await this.#compared(container, before);
    await rm(archive);
  }

  async #started(options: ContainerOptions): Promise<[PodmanContainer, ProgramState]> {
    const [container, ready] = await PodmanContainer.start(options, this.#bench, this.#work);
    return [container, await container.control.verified(ready, container.gpus)];
  }

  async #compared(container: PodmanContainer, before: ProgramState): Promise<void> {
    await container.control.verified(before, container.gpus);
    await container.remove();
  }

  #archive(): string {
    const archive = join(this.#bench.folder, 'podman.tar');
    this.#work.undo('archive', () => rm(archive, { force: true }));
    return archive;
  }
}
