/** A container of containerd that runs the program of the self-test, through our shim. */

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { KfdError } from '../errors.js';
import { processNameIfAny } from '../os/ancestors.js';
import { restoreAnnotation } from '../runtime/shim-names.js';
import { type Bench, gpuName, renderNode, type TestGpu } from './bench.js';
import { Control, type ProgramState } from './control.js';
import { fewBytes, patience, programArguments } from './program.js';
import { insideFolder, insideProgram } from './rootfs.js';
import { finishing, must, timed } from './saving.js';
import type { StageWork } from './stage.js';

/** Ours alone: nobody else's containers are in it. */
const namespace = 'kfd-checkpoint-selftest';
/** containerd 1.7 forgets flags of checkpoints for runtimes that are not called io.containerd.runc. something. */
const runtime = 'io.containerd.runc.kfd.v2';

/** containerd images/mediatypes.go:MediaTypeContainerd1Checkpoint@v1.7.24. */
const criuImages = 'application/vnd.containerd.container.criu.checkpoint.criu.tar';

interface Index {
  readonly manifests?: readonly { readonly mediaType: string; readonly digest: string }[];
}

const ctr = (...words: string[]) => ['ctr', '--namespace', namespace, ...words] as const;

export class ContainerdTask {
  readonly control: Control;
  readonly gpu: TestGpu;
  readonly #rootfs: string;
  readonly #bench: Bench;
  readonly #work: StageWork;
  #process: string | undefined;

  constructor(gpu: TestGpu, rootfs: string, bench: Bench, work: StageWork) {
    this.gpu = gpu;
    this.#rootfs = rootfs;
    this.#bench = bench;
    this.#work = work;
    const { signal } = work;
    const folder = join(bench.folder, 'containerd-control');
    this.control = new Control(folder, { ...patience, signal, ended: () => this.#whyEnded() });
    work.undo('namespace', async () => {
      // It must be empty: what else could not be removed shows here.
      await must(bench, finishing, ['ctr', 'namespace', 'remove', namespace]);
    });
    work.undo('control folder', () => rm(folder, { recursive: true, force: true }));
  }

  get gpus(): readonly string[] {
    return [gpuName(this.gpu)];
  }

  /** Starts the program in container `id`, and waits until it holds all. The stage removes it. */
  async start(id: string): Promise<ProgramState> {
    await mkdir(this.control.folder, { mode: 0o700 });
    const args = programArguments(insideFolder, [this.gpu], fewBytes(this.#bench));
    await this.#run(id, [], insideProgram, ...args);
    return this.control.ready();
  }

  /**
   * Saves the task into `folder`, and ends it. Of containerd 1.7 ctr has folders only for the stock runtime, so the
   * checkpoint goes through containerd's store.
   */
  async checkpoint(id: string, folder: string): Promise<void> {
    await timed(this.#bench, this.#work, 'dump', 'saved', async () => {
      const name = (await this.#must('task', 'checkpoint', id)).split('\n').at(-1) ?? '';
      this.#work.undo('checkpoint of containerd', async () => {
        await this.#bench.run('ctr', ctr('images', 'rm', '--sync', name).slice(1));
      });
      const digest = await this.#imagesOf(name);
      const unpack = `ctr --namespace ${namespace} content get "$0" | tar -xf - -C "$1"`;
      await must(this.#bench, this.#work, ['sh', '-c', unpack, digest, folder]);
    });
    await this.remove(id);
  }

  /** The digest of CRIU's images in the checkpoint `name`: a tar, as containerd made it. */
  async #imagesOf(name: string): Promise<string> {
    const listed = await this.#must('images', 'ls', `name==${name}`);
    const [index = ''] = /sha256:[0-9a-f]{64}/.exec(listed) ?? [];
    const { manifests } = JSON.parse(await this.#must('content', 'get', index)) as Index;
    const found = manifests?.find(({ mediaType }) => mediaType === criuImages);
    if (found !== undefined) return found.digest;
    throw new KfdError('E_IO', `containerd's checkpoint ${name} has no images of CRIU`);
  }

  /** The task comes back as container `id`. */
  async restore(id: string, folder: string): Promise<void> {
    const from = ['--annotation', `${restoreAnnotation}=${folder}`];
    // The command is that of the image; containerd wants one.
    const start = () => this.#run(id, from, insideProgram);
    await timed(this.#bench, this.#work, 'restore', 'restored', start);
  }

  /** No error when there is none. */
  async remove(id: string): Promise<void> {
    for (const words of [
      ['task', 'rm', '-f', id],
      ['container', 'rm', id],
    ]) {
      const [program, ...args] = ctr(...words);
      await this.#bench.run(program, args, { timeoutMs: 60_000 });
    }
  }

  async #run(id: string, flags: readonly string[], ...command: string[]): Promise<void> {
    this.#work.undo(`container ${id}`, () => this.remove(id));
    const mount = `type=bind,src=${this.control.folder},dst=${insideFolder},options=rbind:rw`;
    const devices = ['--device', '/dev/kfd', '--device', renderNode(this.gpu)];
    const words = ctr(
      ...['run', '--detach', '--runtime', runtime, '--rootfs', ...devices, '--mount', mount],
      ...flags,
      ...[this.#rootfs, id, ...command],
    );
    await must(this.#bench, this.#work, words);
    const tasks = await this.#must('task', 'ls');
    const pid = Number(new RegExp(`^${id} +(\\d+) `, 'm').exec(tasks)?.[1] ?? -1);
    this.#process = processNameIfAny(pid);
  }

  #must(...words: string[]): Promise<string> {
    return must(this.#bench, this.#work, ctr(...words));
  }

  #whyEnded(): string | undefined {
    const pid = Number.parseInt(this.#process ?? '', 10);
    if (this.#process !== undefined && processNameIfAny(pid) === this.#process) return undefined;
    return 'see the log of containerd';
  }
}
