/** The other guest of test/lab/pair.sh, as root of host-a reaches it by ssh. */

import { readFileSync } from 'node:fs';
import { attempt, type Outcome, run, until } from './command.js';
import { image } from './container.js';
import { gpuFlags } from './devices.js';
import { pinnedEventsPage } from './gpu.js';

export const hostB = 'host-b';

/** Runs a shell's words there; they must succeed. */
export function there(words: string): Promise<string> {
  return run('ssh', hostB, words);
}

/** The product as an operator installs it. */
export async function installThere(): Promise<void> {
  await there('bash /repo/packaging/install.sh && kfd-checkpoint configure');
}

/** Puts the container image there, which is in the lab's own file. */
export async function loadImageThere(): Promise<void> {
  await there('podman load -q -i /repo/build/lab/programs/image.tar');
}

/** The complaint of its driver when a container that has come there ends, as the GPU's id is another one there. */
export async function meetComplaintThere(): Promise<void> {
  const wait = `until dmesg | grep -qF '${pinnedEventsPage}'; do sleep 0.2; done`;
  await there(
    `timeout 20 sh -c "${wait}" && echo '${pinnedEventsPage}' >>/run/lab/known-complaints`,
  );
}

/** Bytes that this host has sent into the network since it was booted. */
export function bytesSent(): number {
  return Number(readFileSync('/sys/class/net/eth0/statistics/tx_bytes', 'utf8'));
}

/** Cuts the network, or mends it. */
export async function setNetwork(state: 'up' | 'down'): Promise<void> {
  await run('ip', 'link', 'set', 'eth0', state);
}

type Where = 'here' | 'there';

/** A container with gpu-worker that either host runs. Nothing of it is on a disk of a host, so it can move. */
export class Traveller {
  readonly name: string;

  private constructor(name: string) {
    this.name = name;
  }

  /** Returns when the program is ready. */
  static async start(name: string, engine: string, worker: readonly string[]): Promise<Traveller> {
    const options = ['-d', '--name', name, '--network', 'none', ...gpuFlags(0)];
    await run('podman', '--runtime', engine, 'run', ...options, image, 'gpu-worker', ...worker);
    const traveller = new Traveller(name);
    const ready = async () =>
      /^ready /m.test((await traveller.#do('here', 'cat /ctl/status')).stdout);
    await until('the program in the container', ready, 300, 500);
    return traveller;
  }

  #do(where: Where, words: string): Promise<Outcome> {
    const all = `podman exec ${this.name} ${words}`;
    return where === 'here' ? attempt('sh', '-c', all) : attempt('ssh', hostB, all);
  }

  /** Asks the program; an answer "failed" and none are errors. */
  async ask(where: Where, command: string, seconds = 600): Promise<string> {
    const { status, stdout, stderr } = await this.#do(where, `gpu-ctl ${command} /ctl ${seconds}`);
    if (status !== 0) throw new Error(`${this.name} ${where}: ${command}: ${stdout} ${stderr}`);
    return stdout;
  }

  /** podman's words for its state on both hosts; "none" where it is not. */
  async states(): Promise<string> {
    const words = `podman inspect -f '{{.State.Status}}' ${this.name} 2>/dev/null || echo none`;
    const here = await run('sh', '-c', words);
    return `${here} here, ${await there(words)} there`;
  }

  async remove(): Promise<void> {
    const words = `podman rm -f -t 0 --ignore ${this.name}`;
    await run('sh', '-c', words);
    await there(words);
  }
}
