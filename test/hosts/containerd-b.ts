/** containerd in host-b, and tasks of containerd that either host runs. */

import { attempt, type Outcome, run, until } from '../e2e/support/command.js';
import { image } from '../e2e/support/container.js';
import { ctr, ourRuntime } from '../e2e/support/containerd.js';
import { hostB, there } from '../e2e/support/host-b.js';

const config = '/tmp/containerd.toml';
const log = '/tmp/containerd.log';

/** Starts it there, with the configuration of this host. It has no image yet. */
export async function startThere(): Promise<void> {
  await run('scp', '-q', config, `${hostB}:${config}`);
  // Without a descriptor of ssh, which waits for the last one.
  await there(`setsid containerd -c ${config} >>${log} 2>&1 </dev/null & sleep 1`);
  const answers = async () => (await attempt('ssh', hostB, 'ctr version')).status === 0;
  await until('containerd of host-b', answers, 60, 500);
}

/** Its shims and tasks stay. */
export async function stopThere(): Promise<void> {
  await there('pid=$(pgrep -x containerd) && kill $pid && while kill -0 $pid; do sleep 0.1; done');
}

export type Where = 'here' | 'there';

/** Runs a shell's words on one of both hosts; they must succeed. */
export function on(where: Where, words: string): Promise<string> {
  return where === 'here' ? run('sh', '-c', words) : there(words);
}

/** A task with gpu-worker. Nothing of it is on a disk of a host, so it can move. */
export class MovingTask {
  readonly name: string;
  #asked = 0;

  private constructor(name: string) {
    this.name = name;
  }

  /** `flags`: of `ctr run`. Returns when the program is ready. */
  static async start(
    name: string,
    worker: readonly string[],
    flags: readonly string[] = [],
  ): Promise<MovingTask> {
    const devices = ['--device', '/dev/kfd', '--device', '/dev/dri/renderD128'];
    const words = ['run', '-d', '--runtime', ourRuntime, ...devices, ...flags, image, name];
    await run('ctr', ...words, 'gpu-worker', ...worker);
    const task = new MovingTask(name);
    const ready = async () => /^ready /m.test((await task.#do('here', 'cat /ctl/status')).stdout);
    await until('the program in the container', ready, 300, 500);
    return task;
  }

  #do(where: Where, words: string): Promise<Outcome> {
    this.#asked += 1;
    const all = `ctr task exec --exec-id asks-${this.#asked} ${this.name} ${words}`;
    return where === 'here' ? attempt('sh', '-c', all) : attempt('ssh', hostB, all);
  }

  /** Asks the program; an answer "failed" and none are errors. */
  async ask(where: Where, command: string, seconds = 600): Promise<string> {
    const { status, stdout, stderr } = await this.#do(where, `gpu-ctl ${command} /ctl ${seconds}`);
    if (status !== 0) throw new Error(`${this.name} ${where}: ${command}: ${stdout} ${stderr}`);
    return stdout;
  }

  /** Runs a shell's words in it; they must succeed. */
  async sh(where: Where, words: string): Promise<string> {
    const { status, stdout, stderr } = await this.#do(where, `sh -c "${words}"`);
    if (status !== 0) throw new Error(`${this.name} ${where}: ${words}: ${stdout} ${stderr}`);
    return stdout;
  }

  /** ctr's words for the state of its task on both hosts; "no task", and "none" where it is not at all. */
  async states(): Promise<string> {
    const words =
      `ctr container info ${this.name} >/dev/null 2>&1 || { echo none; exit 0; }; ` +
      `ctr task ls | awk '$1 == "${this.name}" { print $NF; found = 1 } END { if (!found) print "no task" }'`;
    const here = await run('sh', '-c', words);
    return `${here} here, ${await there(words)} there`;
  }

  async remove(): Promise<void> {
    const words = `ctr task rm -f ${this.name}; ctr container rm ${this.name}; true`;
    await run('sh', '-c', words);
    await there(words);
  }
}

/** Images of containerd, by their names. */
export async function imagesOf(where: Where): Promise<string[]> {
  const listed =
    where === 'here' ? (await ctr('image', 'ls', '-q')).stdout : await there('ctr image ls -q');
  return listed.split('\n').filter((line) => line !== '');
}
