/** containerd in the guest, with nothing but what running containers takes, and containers made through it. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
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
/** Where containerd unpacks checkpoints: TMPDIR. */
export const temporary = '/tmp/containerd-tmp';

export function ctr(...args: string[]): Promise<Outcome> {
  return attempt('ctr', ...args);
}

/** With which it starts. */
export const config = '/tmp/containerd.toml';
/** What it prints. */
export const daemonLog = '/tmp/containerd.log';

/** Of the release that follows the guest's: containerd with its stock shim, ctr and runc. */
export const nextRelease = '/opt/next/usr/bin';
const usualPath = process.env['PATH'];
export const haveNextRelease = existsSync(join(nextRelease, 'containerd'));

/**
 * A folder in which our shim has the stock shim's name: as with `runtime_path`, the runtime is called what it always
 * was, and its options come along. The stock shim behind it is that beside the daemon.
 */
export function ourShimAsStock(): string {
  const folder = '/tmp/our-shim-as-stock';
  mkdirSync(folder, { recursive: true });
  const link = join(folder, 'containerd-shim-runc-v2');
  if (!existsSync(link)) symlinkSync('/usr/bin/containerd-shim-kfd-v2', link);
  return folder;
}

/** `begin`: what stands above all tables. */
function writeConfig(begin: string, ...disabled: string[]): void {
  const without = [...disabled, 'snapshotter.v1.devmapper', 'internal.v1.tracing'];
  const names = without.map((name) => `"io.containerd.${name}"`).join(', ');
  const folders = `root = "${root}"\nstate = "${state}"\n`;
  writeFileSync(config, `${begin}\n${folders}disabled_plugins = [${names}]\n`);
}

/** Where `configure containerd` writes. */
const imports = ['/etc/containerd/config.toml', '/etc/containerd/conf.d/*.toml'];

/**
 * Has the next release serve Kubernetes' interface, too, from the next start on: with what `configure` has written,
 * and these tables.
 */
export function serveKubernetes(tables: string): void {
  writeConfig(`version = 3\nimports = ${JSON.stringify(imports)}`);
  appendFileSync(config, tables);
}

function startDaemon(): ChildProcess {
  const log = openSync(daemonLog, 'a');
  const env = { ...process.env, TMPDIR: temporary };
  return spawn('containerd', ['-c', config], { stdio: ['ignore', log, log], env });
}

/** Writes what containerd tells, until that ends. */
function listen(): ChildProcess {
  return spawn('ctr', ['events'], { stdio: ['ignore', openSync(eventLog, 'a'), 'ignore'] });
}

/** Returns when a daemon answers. */
export async function answers(): Promise<void> {
  await until('containerd', async () => (await ctr('version')).status === 0, 60);
}

export class Containerd {
  #daemon: ChildProcess;
  #events: ChildProcess;

  private constructor(daemon: ChildProcess, events: ChildProcess) {
    this.#daemon = daemon;
    this.#events = events;
  }

  /**
   * Starts it, with the test programs' image in its store. What fails leaves no daemon: this process would never end.
   */
  static async start(): Promise<Containerd> {
    mkdirSync(temporary, { recursive: true });
    writeConfig('version = 2', 'grpc.v1.cri');
    const daemon = startDaemon();
    try {
      await answers();
      rmSync(eventLog, { force: true });
      await run('ctr', 'images', 'import', '/repo/build/lab/programs/image.tar');
      return new Containerd(daemon, listen());
    } catch (error) {
      daemon.kill();
      throw error;
    }
  }

  /**
   * Kills the daemon and starts it again with the programs in these folders before others. Shims and containers
   * continue meanwhile. The next restart uses the same folders, if it names none.
   */
  async restart(...folders: string[]): Promise<void> {
    await this.restartAfter(async () => undefined, ...folders);
  }

  /** The same, with `body` while there is no daemon. */
  async restartAfter(body: () => Promise<unknown>, ...folders: string[]): Promise<void> {
    const ended = once(this.#daemon, 'close');
    this.#daemon.kill('SIGKILL');
    await ended;
    try {
      await body();
    } finally {
      if (folders.length > 0) process.env['PATH'] = [...folders, usualPath].join(':');
      this.#daemon = startDaemon();
      await answers();
      this.#events = listen();
    }
  }

  /** Returns when it has ended: until then it answers, and the next one waits for its database. */
  async stop(): Promise<void> {
    process.env['PATH'] = usualPath;
    this.#events.kill();
    const { exitCode, signalCode } = this.#daemon;
    if (exitCode !== null || signalCode !== null) return;
    const ended = once(this.#daemon, 'close');
    this.#daemon.kill();
    const hangs = setTimeout(() => this.#daemon.kill('SIGKILL'), 30_000);
    await ended;
    clearTimeout(hangs);
  }
}

/** What containerd told about the container `id`, in its order. */
export function eventsOf(id: string): { topic: string; body: string }[] {
  const told: { topic: string; body: string }[] = [];
  for (const line of readFileSync(eventLog, 'utf8').split('\n')) {
    const [, topic, body] = / (\/tasks\/[a-z-]+) (\{.*)$/.exec(line) ?? [];
    if (topic === undefined || body === undefined) continue;
    if (body.includes(`"container_id":"${id}"`)) told.push({ topic, body });
  }
  return told;
}

/** Folders of unpacked checkpoints that nobody has removed. */
export function temporaryImages(): string[] {
  return readdirSync(temporary).filter((name) => name.startsWith('ctrd-checkpoint'));
}

function entries(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [];
}

/** Bundles of tasks, and runc's own folders of them. */
export function bundlesLeft(): string[] {
  return [bundles, join(state, 'runc/default')].flatMap(entries);
}

/** Folders of the pipes that the output of tasks comes through. */
export function pipesLeft(): string[] {
  return entries(join(state, 'fifo'));
}

/** A proxy of ours and the stock shim behind it. */
export interface Shims {
  readonly pids: { readonly proxy: number; readonly stock: number };
  readonly sockets: { readonly proxy: string; readonly stock: string };
}

const record = '.processes';

/** Those of the only container there is; undefined before the proxy serves. */
export function onlyShims(): Shims | undefined {
  const files = existsSync(sockets) ? readdirSync(sockets) : [];
  const [name, another] = files.filter((file) => file.endsWith(record));
  return name === undefined || another !== undefined ? undefined : readShims(join(sockets, name));
}

/** Undefined while the record is not whole. */
function readShims(path: string): Shims | undefined {
  const [, proxy, pid, stock] =
    /^(\d+) \d+ (\d+) \d+ (.*)\n$/.exec(readFileSync(path, 'utf8')) ?? [];
  if (stock === undefined) return undefined;
  return {
    pids: { proxy: Number(proxy), stock: Number(pid) },
    sockets: { proxy: path.slice(0, -record.length), stock },
  };
}

export class Task {
  readonly id: string;
  readonly control: Control;
  /** What gives it the GPU. */
  readonly #devices: readonly string[];

  constructor(
    id: string,
    control = new Control(id),
    devices: readonly string[] = ['/dev/kfd', '/dev/dri/renderD128'],
  ) {
    this.id = id;
    this.control = control;
    this.#devices = devices;
  }

  /** `ctr run -d` of a container without a GPU. */
  static async start(runtime: string, id: string, ...command: string[]): Promise<Task> {
    await run('ctr', 'run', '-d', '--runtime', runtime, image, id, ...command);
    return new Task(id);
  }

  /** The same with the GPU. Returns when its program is ready. */
  static async startWithGpu(id: string, ...worker: string[]): Promise<Task> {
    const task = new Task(id);
    await run('ctr', ...task.runWithGpu([], 'gpu-worker', ...worker));
    await task.control.ready();
    return task;
  }

  /** Arguments of the `ctr` that starts it with our shim, the GPU and these flags. */
  runWithGpu(flags: readonly string[], ...command: string[]): string[] {
    const runtime = flags.includes('--runtime') ? [] : ['--runtime', ourRuntime];
    mkdirSync(this.control.folder, { recursive: true });
    const mount = `type=bind,src=${this.control.folder},dst=/ctl,options=rbind:rw`;
    const gpu = this.#devices.flatMap((device) => ['--device', device]);
    return [
      'run',
      '-d',
      ...runtime,
      ...gpu,
      '--mount',
      mount,
      ...flags,
      image,
      this.id,
      ...command,
    ];
  }

  async status(): Promise<string> {
    const list = await run('ctr', 'task', 'ls');
    return new RegExp(`^${this.id} +\\d+ +(\\w+)`, 'm').exec(list)?.[1] ?? 'none';
  }

  /** Our proxy for it and the stock shim behind that, with where they listen. */
  shims(): Shims {
    const socket = readFileSync(join(bundles, this.id, 'kfd-shim'), 'utf8').trim();
    const shims = readShims(`${socket}.processes`);
    if (shims === undefined) throw new Error(`${socket}.processes: not whole`);
    return shims;
  }

  /** Waits until containerd has taken it away. */
  async gone(): Promise<void> {
    await until(`the end of ${this.id}`, async () => (await this.status()) === 'none', 30);
  }

  /** Its folder stays, for what is restored from it. */
  async end(): Promise<void> {
    await ctr('task', 'rm', '-f', this.id); // its status is that of the task
    await ctr('container', 'rm', this.id);
  }

  async remove(): Promise<void> {
    await this.end();
    rmSync(this.control.folder, { recursive: true, force: true });
  }
}

/** Sockets of shims, files beside them, and processes of shims. */
export async function shimsLeft(): Promise<string[]> {
  const files = existsSync(sockets) ? readdirSync(sockets) : [];
  const { stdout } = await attempt('pgrep', '-af', 'containerd-shim|dist/shim/');
  const processes = stdout.split('\n').filter((line) => line !== '' && !line.includes('<defunct>'));
  return [...files, ...processes];
}
