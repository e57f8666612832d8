/** A container that runs gpu-worker (test/lab/programs), spoken to through a bind-mounted folder. */

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { attempt, type Outcome, run, until } from './command.js';
import { gpuDevices } from './devices.js';

export const engines = ['crun', 'runc'] as const;
export type Engine = (typeof engines)[number];

export const image = 'localhost/gpu-worker:latest';
const controlRoot = '/tmp/ctl';
const storage = '/var/lib/containers/storage/overlay-containers';
const runtimeStorage = '/run/containers/storage/overlay-containers';

export interface ContainerOptions {
  readonly engine: Engine;
  readonly network?: 'none' | 'bridge';
  /** What `--device` gives it; by default the first GPU. */
  readonly devices?: readonly string[];
  /** More flags of `podman run`. */
  readonly flags?: readonly string[];
  /** The command; by default gpu-worker with `worker`. */
  readonly command?: readonly string[];
  readonly worker?: readonly string[];
  /** Folders below /ctl of further programs that `command` starts. */
  readonly folders?: readonly string[];
}

let serial = 0;

/** Where one worker takes commands and answers, as the host sees it. */
export class Control {
  readonly folder: string;
  #asked = 0;

  constructor(name: string) {
    this.folder = join(controlRoot, name);
  }

  /** Waits for the line the program writes once it holds all it was asked for. */
  async ready(seconds = 120): Promise<string> {
    return until(
      'the program in the container',
      () => {
        const path = join(this.folder, 'status');
        if (!existsSync(path)) return undefined;
        return /^ready .*$/m.exec(readFileSync(path, 'utf8'))?.[0];
      },
      seconds,
    );
  }

  /** Sends one command and returns its reply. */
  async ask(command: string, seconds = 120): Promise<string> {
    const id = `${process.pid}.${++serial}.${++this.#asked}`;
    const draft = join(this.folder, `cmd.${id}`);
    writeFileSync(draft, `${command} ${id}\n`);
    renameSync(draft, join(this.folder, 'cmd'));
    const reply = await until(
      `the reply to ${command}`,
      () => {
        const path = join(this.folder, 'out');
        if (!existsSync(path)) return undefined;
        return readFileSync(path, 'utf8')
          .split('\n')
          .find((line) => line.endsWith(` id=${id}`));
      },
      seconds,
    );
    return reply.slice(0, reply.lastIndexOf(' id='));
  }
}

/** The counter in a reply of the worker: steps its GPU has made. */
export function counter(reply: string): number {
  return Number(/counter=(\d+)/.exec(reply)?.[1] ?? Number.NaN);
}

export class Container {
  readonly name: string;
  readonly engine: Engine;
  readonly control: Control;
  /** Of the programs with folders of their own, in that order. */
  readonly inner: readonly Control[];
  /** Folder of the engine's logs and, after a checkpoint in place, of the image. */
  readonly bundle: string;

  private constructor(
    name: string,
    engine: Engine,
    bundle: string,
    control: Control,
    inner: readonly Control[],
  ) {
    this.name = name;
    this.engine = engine;
    this.bundle = bundle;
    this.control = control;
    this.inner = inner;
  }

  /** `podman run` with the GPU's devices; returns once the program is ready. */
  static async start(options: ContainerOptions): Promise<Container> {
    const name = `${options.engine}-${++serial}`;
    const control = new Control(name);
    rmSync(control.folder, { recursive: true, force: true });
    mkdirSync(control.folder, { recursive: true });
    const inner = (options.folders ?? []).map((folder) => new Control(join(name, folder)));
    for (const { folder } of inner) mkdirSync(folder);
    const command = options.command ?? ['gpu-worker', ...(options.worker ?? ['--vram-mib', '16'])];
    const id = await run(
      'podman',
      '--runtime',
      options.engine,
      'run',
      '-d',
      '--name',
      name,
      '--network',
      options.network ?? 'none',
      ...(options.devices ?? gpuDevices(0)).flatMap((device) => ['--device', device]),
      '-v',
      `${control.folder}:/ctl`,
      ...(options.flags ?? []),
      image,
      ...command,
    );
    const bundle = join(storage, id, 'userdata');
    await Promise.all([control, ...inner].map((program) => program.ready()));
    return new Container(name, options.engine, bundle, control, inner);
  }

  checkpoint(...flags: string[]): Promise<Outcome> {
    return attempt('podman', 'container', 'checkpoint', ...flags, this.name);
  }

  restore(...flags: string[]): Promise<Outcome> {
    return attempt('podman', 'container', 'restore', ...flags);
  }

  /** Host pid of the container's first process. */
  pid(): number {
    const id = basename(dirname(this.bundle));
    return Number(readFileSync(join(runtimeStorage, id, 'userdata/pidfile'), 'utf8'));
  }

  /** Waits until the worker's GPU has made another step; two questions alone may come between two steps. */
  async computesOn(): Promise<void> {
    const now = async () => counter(await this.control.ask('status'));
    const before = await now();
    await until(`a counter above ${before}`, async () => (await now()) > before, 20);
  }

  status(): Promise<string> {
    return run('podman', 'inspect', '-f', '{{.State.Status}}', this.name);
  }

  async remove(): Promise<void> {
    await attempt('podman', 'rm', '-f', '-t', '0', this.name);
  }
}

/** Ends and removes what `engine`'s lane has started, restored copies included. */
export async function removeContainers(engine: Engine): Promise<void> {
  await attempt('podman', 'rm', '-f', '-t', '0', '--filter', `name=^${engine}-`);
}
