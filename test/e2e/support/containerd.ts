/** containerd in the guest, with nothing but what running containers takes, and containers made through it. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { attempt, type Outcome, run, until } from './command.js';
import { Control, image } from './container.js';

export const stockRuntime = 'io.containerd.runc.v2';
/** Containerd 1.7 forgets flags of checkpoints for runtimes that are not called io.containerd.runc. something. */
export const ourRuntime = 'io.containerd.runc.kfd.v2';

const root = '/var/lib/containers/containerd';
const state = '/run/containerd';
const bundles = join(state, 'io.containerd.runtime.v2.task/default');
const sockets = join(state, 's');
const eventLog = '/tmp/containerd-events';
/** Where containerd unpacks checkpoints. */
const temporary = '/tmp/containerd-tmp';

export function ctr(...args: string[]): Promise<Outcome> {
  return attempt('ctr', ...args);
}

const config = '/tmp/containerd.toml';

function startDaemon(): ChildProcess {
  const log = openSync('/tmp/containerd.log', 'a');
  const env = { ...process.env, TMPDIR: temporary };
  return spawn('containerd', ['-c', config], { stdio: ['ignore', log, log], env });
}

async function answers(): Promise<void> {
  await until('containerd', async () => (await ctr('version')).status === 0, 60);
}

export class Containerd {
  #daemon: ChildProcess;
  readonly #events: ChildProcess;

  private constructor(daemon: ChildProcess, events: ChildProcess) {
    this.#daemon = daemon;
    this.#events = events;
  }

  /** Starts it, with the test programs' image in its store. */
  static async start(): Promise<Containerd> {
    mkdirSync(temporary, { recursive: true });
    const disabled = ['grpc.v1.cri', 'snapshotter.v1.devmapper', 'internal.v1.tracing'];
    writeFileSync(
      config,
      `version = 2\nroot = "${root}"\nstate = "${state}"\ndisabled_plugins = [${disabled
        .map((name) => `"io.containerd.${name}"`)
        .join(', ')}]\n`,
    );
    const daemon = startDaemon();
    await answers();
    const events = spawn('ctr', ['events'], {
      stdio: ['ignore', openSync(eventLog, 'w'), 'ignore'],
    });
    await run('ctr', 'images', 'import', '/repo/build/lab/programs/image.tar');
    return new Containerd(daemon, events);
  }

  /** Killed, and started anew: shims and containers go on meanwhile. */
  async restart(): Promise<void> {
    const ended = once(this.#daemon, 'close');
    this.#daemon.kill('SIGKILL');
    await ended;
    this.#daemon = startDaemon();
    await answers();
  }

  stop(): void {
    this.#events.kill();
    this.#daemon.kill();
  }
}

/** Topics of what containerd told about the container `id`, in their order. */
export function topicsOf(id: string): string[] {
  return readFileSync(eventLog, 'utf8')
    .split('\n')
    .filter((line) => line.includes(`"container_id":"${id}"`))
    .map((line) => / (\/tasks\/[a-z-]+) /.exec(line)?.[1] ?? line);
}

/** Folders of unpacked checkpoints that nobody has removed. */
export function temporaryImages(): string[] {
  return readdirSync(temporary).filter((name) => name.startsWith('ctrd-checkpoint'));
}

export class Task {
  readonly id: string;
  readonly control: Control;

  constructor(id: string, control = new Control(id)) {
    this.id = id;
    this.control = control;
  }

  /** `ctr run -d` of a container without a GPU. */
  static async start(runtime: string, id: string, ...command: string[]): Promise<Task> {
    await run('ctr', 'run', '-d', '--runtime', runtime, image, id, ...command);
    return new Task(id);
  }

  /** The same with the GPU, and what else `flags` say. Returns when its program is ready. */
  static async startWithGpu(id: string, ...worker: string[]): Promise<Task> {
    const task = new Task(id);
    mkdirSync(task.control.folder, { recursive: true });
    await run(
      'ctr',
      'run',
      '-d',
      '--runtime',
      ourRuntime,
      ...task.gpuFlags(),
      image,
      id,
      'gpu-worker',
      ...worker,
    );
    await task.control.ready();
    return task;
  }

  /** What gives a container the GPU and this one's folder. */
  gpuFlags(): string[] {
    const mount = `type=bind,src=${this.control.folder},dst=/ctl,options=rbind:rw`;
    return ['--device', '/dev/kfd', '--device', '/dev/dri/renderD128', '--mount', mount];
  }

  async status(): Promise<string> {
    const list = await run('ctr', 'task', 'ls');
    return new RegExp(`^${this.id} +\\d+ +(\\w+)`, 'm').exec(list)?.[1] ?? 'none';
  }

  /** Our proxy for it and the stock shim behind that. */
  shimPids(): { proxy: number; stock: number } {
    const [proxy, , stock] = this.#processes();
    return { proxy: Number(proxy), stock: Number(stock) };
  }

  /** Where the two listen. */
  sockets(): { proxy: string; stock: string } {
    return { proxy: this.#socket(), stock: this.#processes()[4] ?? '' };
  }

  #socket(): string {
    return readFileSync(join(bundles, this.id, 'kfd-shim'), 'utf8').trim();
  }

  #processes(): string[] {
    return readFileSync(`${this.#socket()}.processes`, 'utf8').trim().split(' ');
  }

  /** Waits until containerd has taken it away. */
  async gone(): Promise<void> {
    await until(`the end of ${this.id}`, async () => (await this.status()) === 'none', 30);
  }

  async remove(): Promise<void> {
    await ctr('task', 'rm', '-f', this.id);
    await ctr('container', 'rm', this.id);
    rmSync(this.control.folder, { recursive: true, force: true });
  }
}

/** Sockets of shims, files beside them, and processes of shims. */
export async function shimsLeft(): Promise<string[]> {
  const files = existsSync(sockets) ? readdirSync(sockets) : [];
  const { stdout } = await attempt('pgrep', '-af', 'containerd-shim|dist/shim/');
  return [...files, ...stdout.split('\n').filter((line) => line !== '')];
}
