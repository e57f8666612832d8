/** One podman container, by its id. What podman says it has done is looked at afterwards. */

import { KfdError } from '../errors.js';
import { missing, type Run, type RunResult } from '../os/exec.js';
import type { ContainerState, EngineContainer } from './engine.js';
import { endLeftover, type Leftover, leftoverOf } from './oci-leftover.js';
import { killProcesses, thaw } from './podman-cgroups.js';

/** Podman waits for the lock of a container that another command uses. */
const podmanMs = 60_000;
/** Where it must not run any longer there is less time: the source waits only LeaseTerms.marginMs longer. */
const endMs = 10_000;

/** libpod/define/containerstate.go: ContainerStatus.String. `stopping` and `removing` are on their way. */
const states: Readonly<Record<string, ContainerState>> = {
  running: 'runs',
  paused: 'paused',
  configured: 'stopped',
  created: 'stopped',
  initialized: 'stopped',
  exited: 'stopped',
  stopped: 'stopped',
  stopping: 'runs',
  removing: 'stopped',
};

export class PodmanContainer implements EngineContainer {
  readonly id: string;
  readonly #run: Run;
  readonly #root: string;

  /** `id`: the whole one. `root`: folder of the system. */
  constructor(id: string, run: Run, root: string) {
    this.id = id;
    this.#run = run;
    this.#root = root;
  }

  async state(timeoutMs = podmanMs): Promise<ContainerState> {
    const args = ['inspect', '--format', '{{.State.Status}}', this.id];
    const found = await this.#podman(args, timeoutMs);
    const state = states[found.stdout.trim()];
    if (found.status === 0 && state !== undefined) return state;
    if (found.status === 0)
      throw refused('inspect', { ...found, stderr: `state "${found.stdout.trim()}"` });
    // podman-container-exists(1): 1 is the answer "no", 125 a failure.
    const exists = await this.#podman(['exists', this.id], timeoutMs);
    if (exists.status === 1) return 'none';
    throw exists.status === 0 ? refused('inspect', found) : refused('exists', exists);
  }

  /** Where podman has its files. undefined: there is no such container. Throws E_HOST, E_TIMEOUT. */
  async bundle(timeoutMs = podmanMs): Promise<string | undefined> {
    const args = ['inspect', '--format', '{{.StaticDir}}', this.id];
    const found = await this.#podman(args, timeoutMs);
    const path = found.stdout.trim();
    return found.status === 0 && path.startsWith('/') ? path : undefined;
  }

  async pause(): Promise<void> {
    try {
      if ((await this.state(endMs)) !== 'runs') return;
      await this.#podman(['pause', this.id], endMs);
      if ((await this.state(endMs)) !== 'runs') return;
    } catch {
      // What podman cannot do or say in time, the kernel can.
    }
    await killProcesses(this.id, this.#root);
    const killed = await this.#podman(['kill', this.id], endMs);
    if ((await this.state(endMs)) === 'runs') throw refused('pause and kill', killed);
  }

  /** Also where podman says that it runs, and it stands still. */
  async unpause(): Promise<void> {
    const before = await this.state();
    if (before !== 'runs' && before !== 'paused') return;
    const done = before === 'paused' ? await this.#podman(['unpause', this.id]) : undefined;
    // Podman 6 freezes it for a checkpoint with --leave-running (seen with 6.1.1). Where its runtime is killed, podman
    // goes before CRIU, which restores the freeze at its end (criu/seize.c:freezer_restore_state@4.2).
    await thaw(this.id, this.#root);
    if (done !== undefined && (await this.state()) === 'paused') throw refused('unpause', done);
  }

  async remove(): Promise<void> {
    const args = ['rm', '--force', '--time', '0', '--ignore', '--volumes', this.id];
    try {
      const done = await this.#podman(args, 2 * endMs);
      if ((await this.state(endMs)) !== 'none') throw refused('rm', done);
    } finally {
      // A podman that was killed in the middle of a restore may not know of the processes.
      await killProcesses(this.id, this.#root);
      await this.endLeftover();
    }
  }

  /**
   * What its runtime has of it where podman says that it has stopped: a killed restore has left that. `bundle`: the
   * folder that podman has for it. Throws E_HOST, E_TIMEOUT.
   */
  async leftover(bundle: string): Promise<Leftover | undefined> {
    const left = await leftoverOf(this.id, bundle, this.#run, this.#root);
    return left !== undefined && (await this.state()) === 'stopped' ? left : undefined;
  }

  /** What a killed restore has left of the stopped container. Throws E_HOST, Node's error. */
  async endLeftover(): Promise<void> {
    // The runtime is asked whatever podman says.
    const bundle = await this.bundle(endMs).catch(() => undefined);
    await endLeftover(this.id, bundle, this.#run, this.#root);
  }

  async forget(): Promise<void> {
    const done = await this.#podman(['rm', '--ignore', '--volumes', this.id]);
    if ((await this.state()) !== 'none') throw refused('rm', done);
  }

  async #podman(args: readonly string[], timeoutMs = podmanMs): Promise<RunResult> {
    const result = await this.#run('podman', ['container', ...args], { timeoutMs });
    if (result === undefined) throw missing('podman', new Error('not in PATH'));
    if (result.status !== undefined) return result;
    throw new KfdError('E_TIMEOUT', `podman: container ${args[0]} did not end in time`, {
      hint: 'end the other command that uses this container',
    });
  }
}

function refused(what: string, { status, stderr }: RunResult): KfdError {
  const said = stderr.trimEnd().split('\n').at(-1) ?? '';
  const tail = said === '' ? '' : `: ${said}`;
  return new KfdError('E_HOST', `podman container ${what}: ended with status ${status}${tail}`, {
    hint: 'run "podman ps --all" and look at the container',
  });
}
