/** Containers of podman that run the program of the self-test. */

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { processNameIfAny } from '../os/ancestors.js';
import { type Bench, gpuName, renderNode, type TestGpu } from './bench.js';
import { Control, type ProgramState } from './control.js';
import { tailOf } from './logs.js';
import { patience, programArguments } from './program.js';
import { insideFolder, insideProgram, makeRootfs } from './rootfs.js';
import { finishing, type Kind, must, reasonIn, timed } from './saving.js';
import type { StageWork } from './stage.js';

const image = 'localhost/kfd-checkpoint-selftest:latest';

/** Makes the image, which goes with the stage. It comes from nowhere else. */
export async function importImage(bench: Bench, work: StageWork): Promise<void> {
  const rootfs = await makeRootfs(bench, work, 'podman-rootfs');
  const archive = join(bench.folder, 'podman-image.tar');
  work.undo('archive of the image', () => rm(archive, { force: true }));
  await must(bench, work, ['tar', '-C', rootfs, '--owner=0', '--group=0', '-cf', archive, '.']);
  await must(bench, work, ['podman', 'import', '--quiet', archive, image]);
  work.undo('image', async () => {
    await must(bench, finishing, ['podman', 'rmi', '--force', image]);
  });
}

export interface ContainerOptions {
  readonly runtime: string;
  readonly gpus: readonly TestGpu[];
  /** Contents on each GPU. */
  readonly bytes: number;
  /** Two processes share a buffer. */
  readonly shares?: boolean;
}

let serial = 0;

export class PodmanContainer {
  readonly name: string;
  readonly control: Control;
  readonly gpus: readonly string[];
  readonly #bench: Bench;
  readonly #work: StageWork;
  #process: string | undefined;

  private constructor(name: string, options: ContainerOptions, bench: Bench, work: StageWork) {
    this.name = name;
    this.gpus = options.gpus.map(gpuName);
    this.#bench = bench;
    this.#work = work;
    const folder = join(bench.folder, name);
    const { signal } = work;
    this.control = new Control(folder, { ...patience, signal, ended: () => this.#whyEnded() });
  }

  /** Starts one and waits until its program holds all. The stage removes it. */
  static async start(
    options: ContainerOptions,
    bench: Bench,
    work: StageWork,
  ): Promise<[PodmanContainer, ProgramState]> {
    serial += 1;
    const name = `kfd-checkpoint-selftest-${process.pid}-${serial}`;
    const container = new PodmanContainer(name, options, bench, work);
    const { folder } = container.control;
    work.undo('control folder', () => rm(folder, { recursive: true, force: true }));
    await mkdir(folder, { mode: 0o700 });
    work.undo(`container ${name}`, () => container.remove());
    for (const log of ['dump.log', 'restore.log']) {
      work.logOnFailure(`${name}: ${log}`, () => container.#log(log));
    }
    await must(bench, work, ['podman', ...runArguments(name, folder, options)]);
    await container.#look();
    return [container, await container.control.ready()];
  }

  /** `podman container checkpoint`. `what`: of the steps. */
  async checkpoint(what: string, ...flags: string[]): Promise<void> {
    await this.#timed('dump', `${what}: saved`, ['checkpoint', ...flags, this.name]);
  }

  /** In place; or out of `archive`, whose container is gone. */
  async restore(what: string, archive?: string): Promise<void> {
    const from = archive === undefined ? [this.name] : ['--import', archive];
    await this.#timed('restore', `${what}: restored`, ['restore', ...from]);
    await this.#look();
  }

  /** No error when there is none. */
  async remove(): Promise<void> {
    const words = ['podman', 'rm', '--force', '--time', '0', '--ignore', this.name] as const;
    await must(this.#bench, finishing, words);
  }

  async #timed(kind: Kind, what: string, words: readonly string[]): Promise<void> {
    const reason = async () => reasonIn(await this.#log(`${kind}.log`));
    const command = ['podman', 'container', ...words] as const;
    await timed(this.#bench, this.#work, kind, what, () =>
      must(this.#bench, this.#work, command, reason),
    );
  }

  async #log(name: string): Promise<string | undefined> {
    const folder = await this.#inspect('{{.StaticDir}}');
    return folder === undefined ? undefined : tailOf(join(folder, name));
  }

  async #inspect(format: string): Promise<string | undefined> {
    const words = ['container', 'inspect', '--format', format, this.name];
    const result = await this.#bench.run('podman', words, { timeoutMs: 60_000 });
    return result?.status === 0 ? result.stdout.trim() : undefined;
  }

  async #look(): Promise<void> {
    this.#process = processNameIfAny(Number(await this.#inspect('{{.State.Pid}}')) || -1);
  }

  #whyEnded(): string | undefined {
    const pid = Number.parseInt(this.#process ?? '', 10);
    if (this.#process !== undefined && processNameIfAny(pid) === this.#process) return undefined;
    return `see "podman logs ${this.name}"`;
  }
}

/** The container has nothing but the GPUs and the folder of orders. Nothing is fetched. */
function runArguments(name: string, folder: string, options: ContainerOptions): string[] {
  const { runtime, gpus, bytes, shares } = options;
  const devices = gpus.flatMap((gpu) => ['--device', renderNode(gpu)]);
  return [
    ...['--runtime', runtime, 'run', '--detach', '--name', name, '--network', 'none'],
    ...['--pull', 'never', '--security-opt', 'label=disable', '--device', '/dev/kfd', ...devices],
    ...['--volume', `${folder}:${insideFolder}`, image, insideProgram],
    ...programArguments(insideFolder, gpus, bytes),
    ...(shares === true ? ['--share'] : []),
  ];
}
