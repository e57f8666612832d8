/** podman and ctr of the self-test's tests: their containers run a program that plays the real one. */

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Run, RunResult } from '../../src/os/exec.js';
import type { Bench } from '../../src/selftest/bench.js';
import { programPath } from '../../src/selftest/program.js';
import { benchWith, type Fault, gpu } from './selftest-world.js';

const done = (stdout = ''): RunResult => ({ status: 0, stdout, stderr: '' });
const failed = (stderr: string): RunResult => ({ status: 125, stdout: '', stderr });

export const digestOf = (digit: string) => `sha256:${digit.repeat(64)}`;
export const checkpointName = 'containerd.io/checkpoint/saved:11-26-2026-00:17:00';
const criuTar = 'application/vnd.containerd.container.criu.checkpoint.criu.tar';

/** An engine with containers whose programs are processes of this host. */
export class Engine {
  readonly asked: string[] = [];
  readonly versions: Record<string, string> = { podman: '5.4.2', crun: '1.21', runc: '1.1.15' };
  /** The command that begins so fails, with this log of CRIU. */
  fails: string | undefined;
  log = '';
  /** Of the checkpoint in containerd's store. */
  index: unknown = { manifests: [{ mediaType: criuTar, digest: digestOf('b') }] };
  /** What restored programs do wrong. */
  restoredFault: Fault | undefined;
  readonly #t: TestContext;
  readonly #programs = new Map<string, { pid: number; args: string[] }>();
  bench!: Bench;

  constructor(t: TestContext) {
    this.#t = t;
    t.after(() => {
      for (const name of [...this.#programs.keys()]) this.#end(name);
    });
  }

  get left(): string[] {
    return [...this.#programs.keys()];
  }

  readonly run: Run = async (command, args) => {
    if (args[0] === '--version') {
      const version = this.versions[command];
      return version === undefined ? undefined : done(`${command} version ${version}\n`);
    }
    const words = [command, ...args].join(' ');
    this.asked.push(words);
    if (this.fails !== undefined && words.includes(this.fails)) {
      // Podman leaves the container behind that it could not restore.
      if (args.includes('--import')) this.#programs.set(this.#lastName, { pid: 0, args: [] });
      return failed('Error: it failed\n');
    }
    return command === 'ctr' ? this.#ctr(args) : this.#podman(args);
  };

  async #podman(args: readonly string[]): Promise<RunResult> {
    const verb = args.find((word) => /^(run|checkpoint|restore|inspect|rm)$/.test(word));
    const last = args.at(-1) ?? '';
    const after = (name: string) => args[args.indexOf(name) + 1] ?? '';
    switch (verb) {
      case 'run': {
        const from = args.indexOf('--folder');
        const [folder = ''] = after('--volume').split(':');
        await this.#start(after('--name'), ['--folder', folder, ...args.slice(from + 2)]);
        return done();
      }
      case 'inspect':
        if (last === '' || !this.#programs.has(last)) return failed('no such container');
        return done(
          last && args.includes('{{.State.Pid}}') ? `${this.#pid(last)}\n` : this.#logs(),
        );
      case 'checkpoint':
        if (!args.includes('--leave-running')) this.#kill(last);
        if (args.includes('--export')) writeFileSync(after('--export'), last);
        return done();
      case 'restore':
        await this.#again(args.includes('--import') ? undefined : last);
        return done();
      case 'rm':
        this.#end(last);
        return done();
      default:
        return done();
    }
  }

  async #ctr(args: readonly string[]): Promise<RunResult> {
    const words = args.slice(2);
    const [noun = '', verb = ''] = words;
    if (noun === 'run') {
      const id = words[words.findIndex((word) => word.endsWith('containerd-rootfs')) + 1] ?? '';
      const from = words.indexOf('--folder');
      const folder = /src=([^,]+)/.exec(words[words.indexOf('--mount') + 1] ?? '')?.[1] ?? '';
      if (from < 0) await this.#again(undefined, id);
      else await this.#start(id, ['--folder', folder, ...words.slice(from + 2)]);
    }
    if (`${noun} ${verb}` === 'task ls') {
      const lines = this.left.map((id) => `${id}    ${this.#pid(id)}    RUNNING`);
      return done(`TASK    PID    STATUS\n${lines.join('\n')}\n`);
    }
    if (verb === 'checkpoint') return done(`said before\n${checkpointName}\n`);
    if (noun === 'images' && verb === 'ls') return done(`NAME DIGEST\nx ${digestOf('a')} 1\n`);
    if (noun === 'content') return done(JSON.stringify(this.index));
    if (verb === 'rm') this.#kill(words.at(-1) ?? '');
    return done();
  }

  #last: string[] = [];

  async #start(name: string, args: string[], fault?: Fault): Promise<void> {
    const { prefix } = fault === undefined ? this.bench : await benchWith(this.#t, fault);
    const child = spawn(programPath(prefix), args, { stdio: 'ignore' });
    this.#last = args;
    this.#programs.set(name, { pid: child.pid ?? 0, args });
  }

  async #again(name: string | undefined, id?: string): Promise<void> {
    const found = name ?? id ?? this.#lastName;
    await this.#start(found, this.#last, this.restoredFault);
  }

  #lastName = '';

  #pid(name: string): number {
    return this.#programs.get(name)?.pid ?? 0;
  }

  #kill(name: string): void {
    const pid = this.#pid(name);
    this.#lastName = name;
    try {
      if (pid > 0) process.kill(pid, 'SIGKILL');
    } catch {
      // it has ended
    }
  }

  #end(name: string): void {
    this.#kill(name);
    this.#programs.delete(name);
  }

  #logs(): string {
    const folder = join(this.bench.prefix, 'userdata');
    mkdirSync(folder, { recursive: true });
    for (const name of ['dump.log', 'restore.log']) writeFileSync(join(folder, name), this.log);
    return `${folder}\n`;
  }
}

/** An engine and its bench, without session logs: their times are not waited for. */
export async function world(
  t: TestContext,
  gpus = 2,
  change: (engine: Engine) => void = () => undefined,
) {
  const engine = new Engine(t);
  const all = Array.from({ length: gpus }, (_, at) => gpu(at));
  engine.bench = await benchWith(t, undefined, { gpus: all, run: engine.run });
  change(engine);
  return engine;
}
