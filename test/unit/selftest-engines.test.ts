/** Stages podman and containerd of the self-test, with engines that run a program that plays the real one. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Bench } from '../../src/selftest/bench.js';
import { reasonIn } from '../../src/selftest/saving.js';
import { containerdStage } from '../../src/selftest/stages/containerd.js';
import { podmanStage } from '../../src/selftest/stages/podman.js';
import { checkpointName, digestOf, type Engine, world } from './selftest-engine.js';
import { runStage } from './selftest-world.js';

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
