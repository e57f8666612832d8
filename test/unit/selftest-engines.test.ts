/** Stages podman and containerd of the self-test, with engines that run a program that plays the real one. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Run, RunResult } from '../../src/os/exec.js';
import type { Bench } from '../../src/selftest/bench.js';
import { programPath } from '../../src/selftest/program.js';
import { reasonIn } from '../../src/selftest/saving.js';
import { containerdStage } from '../../src/selftest/stages/containerd.js';
import { podmanStage } from '../../src/selftest/stages/podman.js';
import { benchWith, type Fault, gpu, runStage } from './selftest-world.js';

const done = (stdout = ''): RunResult => ({ status: 0, stdout, stderr: '' });
const failed = (stderr: string): RunResult => ({ status: 125, stdout: '', stderr });

/** An engine with containers whose programs are processes of this host. */
const digestOf = (digit: string) => `sha256:${digit.repeat(64)}`;
const checkpointName = 'containerd.io/checkpoint/saved:11-26-2026-00:17:00';
const criuTar = 'application/vnd.containerd.container.criu.checkpoint.criu.tar';

class Engine {
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

async function world(t: TestContext, gpus = 2, change: (engine: Engine) => void = () => undefined) {
  const engine = new Engine(t);
  const all = Array.from({ length: gpus }, (_, at) => gpu(at));
  engine.bench = await benchWith(t, undefined, { gpus: all, run: engine.run });
  // No session logs: their times are not waited for.
  change(engine);
  return engine;
}

const setUp = async () => true;

async function podman(t: TestContext, gpus = 2, change?: (engine: Engine) => void) {
  const engine = await world(t, gpus, change);
  const result = await runStage(podmanStage(engine.bench, setUp));
  assert.deepEqual(readdirSync(engine.bench.folder), [], 'files are left');
  assert.deepEqual(engine.left, [], 'containers are left');
  return { engine, result };
}

const ways = (engine: Engine, runtime: string) =>
  engine.asked
    .filter((words) => words.startsWith(`podman --runtime ${runtime} run`))
    .map((words) => words.replace(/.*?--render/, '--render'));

test('each way of podman with each runtime; the image is made here and goes again', async (t) => {
  const { engine, result } = await podman(t);
  assert.equal(result.status, 'passed', result.reason);
  const one = '--render 128 --mib 1';
  const expected = [one, one, one, `${one} --share`, '--render 128 --render 129 --mib 1'];
  for (const runtime of ['crun', 'runc']) assert.deepEqual(ways(engine, runtime), expected);
  const verbs = engine.asked.map((words) => words.split(' ').slice(0, 2).join(' '));
  assert.deepEqual([verbs[0], verbs[1], verbs.at(-1)], ['tar -C', 'podman import', 'podman rmi']);
  for (const words of engine.asked.filter((text) => / run /.test(text))) {
    assert.match(words, /--network none --pull never /);
  }
  const names = result.steps.map(({ name }) => name);
  assert.equal(names.filter((name) => /: saved$/.test(name)).length, 10);
  assert.equal(names.filter((name) => /: restored$/.test(name)).length, 10);
});

test('one GPU and one runtime: what needs more is left out', async (t) => {
  const { engine, result } = await podman(t, 1, ({ versions }) => {
    delete versions['crun'];
  });
  assert.equal(result.status, 'passed', result.reason);
  assert.deepEqual([ways(engine, 'crun').length, ways(engine, 'runc').length], [0, 4]);
});

test('where KFD exports no buffers, none is shared', async (t) => {
  const { engine } = await podman(t, 1, (made) => {
    made.bench = { ...made.bench, exportsBuffers: false };
    delete made.versions['crun'];
  });
  assert.ok(engine.asked.every((words) => !words.includes('--share')));
});

test('without podman, without runtimes and without our set-up the stage is skipped', async (t) => {
  const cases: [RegExp, string[], boolean][] = [
    [/^no podman in PATH$/, ['podman'], true],
    [/^neither crun nor runc in PATH$/, ['crun', 'runc'], true],
    [/^podman is not set up/, [], false],
  ];
  for (const [reason, missing, isSetUp] of cases) {
    const engine = await world(t);
    for (const name of missing) delete engine.versions[name];
    const result = await runStage(podmanStage(engine.bench, async () => isSetUp));
    assert.equal(result.status, 'skipped');
    assert.match(result.reason ?? '', reason);
    assert.deepEqual(engine.asked, []);
  }
});

test("a command of podman that fails is told in the plugin's words, with CRIU's log", async (t) => {
  const log = '(00.1) Error (x.c:1): kfd-checkpoint: KFD RESTORE: Invalid argument\n';
  for (const [fails, verb] of [
    ['container checkpoint', 'dump'],
    ['container restore', 'restore'],
  ] as const) {
    const { result } = await podman(t, 1, (engine) => {
      Object.assign(engine, { fails, log });
    });
    assert.equal(result.reason, `podman ${fails}: ${reasonIn(log)}`);
    const logs = result.logs.filter(({ name }) => name.endsWith(`${verb}.log`));
    assert.deepEqual(
      logs.map(({ text }) => text),
      [log],
    );
  }
  const { result } = await podman(t, 1, (engine) => {
    engine.fails = 'podman import';
  });
  assert.equal(result.reason, 'podman import: Error: it failed');
});

test('restored containers that find damage or die fail the stage', async (t) => {
  for (const [fault, reason] of [
    ['finds damage', /expected 0x02$/],
    ['dies', /^the test program ended: /],
  ] as const) {
    const { result } = await podman(t, 1, (engine) => {
      engine.restoredFault = fault;
    });
    assert.equal(result.status, 'failed');
    assert.match(result.reason ?? '', reason);
  }
});

test('containerd: saved, and restored under another name by annotation, in a namespace of ours', async (t) => {
  const engine = await world(t, 1);
  const result = await runStage(containerdStage(engine.bench));
  assert.equal(result.status, 'passed', result.reason);
  assert.deepEqual(readdirSync(engine.bench.folder), []);
  const [version, ...rest] = engine.asked;
  assert.equal(version, 'ctr version');
  const last = rest.pop();
  assert.equal(last, 'ctr namespace remove kfd-checkpoint-selftest');
  for (const words of rest)
    assert.match(words, /^(sh -c )?ctr --namespace kfd-checkpoint-selftest /);
  const folder = join(engine.bench.folder, 'containerd-image');
  const store = ['images ls name==', 'images rm --sync '].map((verb) => verb + checkpointName);
  const ends = [...store, `content get ${digestOf('a')}`, ` ${digestOf('b')} ${folder}`];
  const missing = ends.filter((end) => !rest.some((words) => words.endsWith(end)));
  assert.deepEqual(missing, []);
  assert.ok(rest.some((words) => words.includes(`io.kfd-checkpoint.restore-from=${folder}`)));
});

test('containerd: what is not there is skipped, what fails is told', async (t) => {
  const engine = await world(t, 1);
  const without: Bench = { ...engine.bench, run: async () => undefined };
  const skipped = await runStage(containerdStage(without));
  assert.deepEqual([skipped.status, skipped.reason], ['skipped', 'no ctr in PATH']);
  engine.fails = 'ctr version';
  const idle = await runStage(containerdStage(engine.bench));
  assert.deepEqual([idle.status, idle.reason], ['skipped', 'containerd does not run']);
  engine.fails = 'task checkpoint';
  const result = await runStage(containerdStage(engine.bench));
  assert.deepEqual(
    [result.status, result.reason],
    ['failed', 'ctr task checkpoint: Error: it failed'],
  );
  assert.match(result.hint ?? '', /\/var\/log\/kfd-checkpoint/);
  engine.fails = undefined;
  engine.index = { manifests: [{ mediaType: 'text/plain', digest: digestOf('b') }] };
  const strange = await runStage(containerdStage(engine.bench));
  assert.equal(strange.reason, `containerd's checkpoint ${checkpointName} has no images of CRIU`);
  assert.deepEqual(readdirSync(engine.bench.folder), []);
});
