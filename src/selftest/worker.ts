/** The program of the self-test as a process of this host. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { access, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../errors.js';
import { processNameIfAny } from '../os/ancestors.js';
import { type Bench, gpuName, type TestGpu } from './bench.js';
import { Control, type ProgramState } from './control.js';
import type { StageWork } from './stage.js';

export const programPath = (prefix: string) => `${prefix}/libexec/kfd-checkpoint-selftest`;

/** Throws E_HOST when the installation does not have it. */
export async function assertProgram({ prefix }: Pick<Bench, 'prefix'>): Promise<void> {
  const path = programPath(prefix);
  await access(path, constants.X_OK).catch((cause: unknown) => {
    const hint = 'install the package again';
    throw new KfdError('E_HOST', `${path}: cannot be run`, { cause, hint });
  });
}

/** Its arguments. `bytes`: contents on each GPU, whole MiB. */
export function programArguments(
  folder: string,
  gpus: readonly TestGpu[],
  bytes: number,
): string[] {
  const renders = gpus.flatMap(({ minor }) => ['--render', String(minor)]);
  return ['--folder', folder, ...renders, '--mib', String(bytes / 2 ** 20)];
}

/** Enough contents for what is not about rates. */
export const fewBytes = ({ bytes }: Pick<Bench, 'bytes'>) => Math.min(bytes, 64 * 2 ** 20);

export const patience = { pollMs: 20, limitMs: 300_000 } as const;

/** How long a process may take to end after SIGKILL: KFD gives up its GPU meanwhile. */
const endMs = 30_000;

export class Worker {
  readonly control: Control;
  readonly gpus: readonly string[];
  readonly pid: number;
  /** Of this process alone, whatever gets its pid later. */
  readonly #name: string | undefined;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, pid: number, control: Control, gpus: readonly string[]) {
    this.#child = child;
    this.pid = pid;
    this.control = control;
    this.gpus = gpus;
    this.#name = processNameIfAny(pid);
  }

  /**
   * Starts it in a session of its own with no open file of ours, as CRIU wants it. The stage that `work` belongs to
   * ends it. Returns when it holds all. Throws E_GPU_IO with its reason, E_HOST.
   */
  static async start(bench: Bench, work: StageWork): Promise<[Worker, ProgramState]> {
    await assertProgram(bench);
    const folder = join(bench.folder, 'control');
    work.undo('control folder', () => rm(folder, { recursive: true, force: true }));
    await mkdir(folder, { mode: 0o700 });
    const args = programArguments(folder, bench.gpus, fewBytes(bench));
    const child = spawn(programPath(bench.prefix), args, {
      cwd: '/',
      detached: true,
      stdio: 'ignore',
      env: {},
    });
    const failed = once(child, 'error').then(([error]) => (error as Error).message);
    if (child.pid === undefined) {
      throw new KfdError('E_HOST', `${programPath(bench.prefix)}: ${await failed}`);
    }
    let worker: Worker | undefined;
    const ended = () => worker?.whyEnded();
    const control = new Control(folder, { ...patience, signal: work.signal, ended });
    worker = new Worker(child, child.pid, control, bench.gpus.map(gpuName));
    const started = worker;
    work.undo('test program', () => started.end());
    return [worker, await control.ready()];
  }

  /** Undefined while it lives. */
  whyEnded(): string | undefined {
    if (processNameIfAny(this.pid) === this.#name && this.#name !== undefined) return undefined;
    const { exitCode, signalCode } = this.#child;
    return signalCode ?? (exitCode === null ? 'gone' : `status ${exitCode}`);
  }

  /** Throws E_TIMEOUT when it does not end. */
  async end(): Promise<void> {
    const deadline = performance.now() + endMs;
    while (this.whyEnded() === undefined) {
      try {
        process.kill(this.pid, 'SIGKILL');
      } catch {
        return; // it has just ended
      }
      if (performance.now() > deadline) {
        throw new KfdError('E_TIMEOUT', `the test program (pid ${this.pid}) cannot be ended`, {
          hint: 'its GPU hangs: see the kernel log; a reboot may be needed',
        });
      }
      await delay(20);
    }
  }
}
