/** Stage canary of the self-test, with a CRIU that ends one process and starts another. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { libdir } from '../../src/criu/state-folder.js';
import { processNameIfAny } from '../../src/os/ancestors.js';
import type { Run } from '../../src/os/exec.js';
import type { Bench } from '../../src/selftest/bench.js';
import { sessionFacts, sessionLog, tailOf } from '../../src/selftest/logs.js';
import { programArguments, programPath } from '../../src/selftest/program.js';
import { reasonIn } from '../../src/selftest/saving.js';
import { canaryStage } from '../../src/selftest/stages/canary.js';
import { temporaryFolder } from './paths.js';
import { benchWith, type Fault, runStage } from './selftest-world.js';

interface Played {
  /** This command fails, with these lines in its log. */
  readonly fails?: 'dump' | 'restore';
  readonly log?: string;
  /** What the restored program does wrong. */
  readonly fault?: Fault;
}

/** Restored programs. */
const pids: number[] = [];

/** A CRIU, and a session that has logged beside it. */
function criu(bench: () => Bench, t: TestContext, asked: string[][], played: Played): Run {
  return async (command, args) => {
    asked.push([command, ...args]);
    const [verb = ''] = args;
    const after = (name: string) => args[args.indexOf(name) + 1] ?? '';
    const images = after('--images-dir');
    writeFileSync(join(images, after('--log-file')), played.log ?? '(00.1) all is well\n');
    const ended = {
      msg: 'session ended',
      content_bytes: 1000,
      timings_us: { drain: 5, upload: 7, freeze: 9 },
    };
    writeFileSync(join(bench().logFolder, `2026Z-${verb}-1.log`), `${JSON.stringify(ended)}\n`);
    if (played.fails === verb) return { status: 1, stdout: '', stderr: 'criu failed\n' };
    if (verb === 'dump') process.kill(Number(after('--tree')), 'SIGKILL');
    if (verb === 'restore') await restored(bench(), after('--pidfile'), t, played.fault);
    return { status: 0, stdout: '', stderr: '' };
  };
}

async function restored(bench: Bench, pidFile: string, t: TestContext, fault?: Fault) {
  const { prefix } = await benchWith(t, fault);
  const args = programArguments(join(bench.folder, 'control'), bench.gpus, 2 ** 20);
  const { pid = 0 } = spawn(programPath(prefix), args, { detached: true, stdio: 'ignore' });
  pids.push(pid);
  writeFileSync(pidFile, `${pid}\n`);
}

async function canary(t: TestContext, played: Played = {}) {
  const asked: string[][] = [];
  const logFolder = await temporaryFolder(t);
  const bench: Bench = await benchWith(t, undefined, {
    logFolder,
    run: criu(() => bench, t, asked, played),
  });
  const result = await runStage(canaryStage(bench));
  assert.deepEqual(readdirSync(bench.folder), [], 'something is left');
  return { result, asked };
}

test('CRIU gets the plugin by name; the restored program is asked, then ended', async (t) => {
  const { result, asked } = await canary(t);
  assert.equal(result.status, 'passed', result.reason);
  assert.deepEqual(
    asked.map(([program, verb]) => `${program} ${verb}`),
    ['criu dump', 'criu restore'],
  );
  for (const words of asked) assert.equal(words[words.indexOf('--libdir') + 1], libdir);
  const steps = result.steps.map(({ name, bytes }) => (bytes ? `${name} ${bytes}` : name));
  assert.deepEqual(steps, [
    'saved',
    'saved: contents read 1000',
    'saved: freeze',
    'restored',
    'restored: contents written 1000',
    'restored: freeze',
  ]);
  for (const pid of pids) assert.equal(processNameIfAny(pid), undefined);
});

test("a dump and a restore that fail are told in the plugin's words, with their logs", async (t) => {
  const log = [
    '(00.02) Error (criu/cr-dump.c:1): something after it',
    '(00.01) Error (cr.c:2): kfd-checkpoint: KFD CHECKPOINT: Invalid argument',
    '',
  ].join('\n');
  for (const fails of ['dump', 'restore'] as const) {
    const { result } = await canary(t, { fails, log });
    assert.deepEqual([result.status, result.code], ['failed', 'E_IO']);
    const words = 'Error (cr.c:2): kfd-checkpoint: KFD CHECKPOINT: Invalid argument';
    assert.equal(result.reason, `criu ${fails}: ${words}`);
    const names = result.logs.map(({ name }) => name);
    assert.ok(names.includes(`${fails}.log`) && names.includes(`session ${fails}`), names.join());
  }
  const { result } = await canary(t, { fails: 'dump', log: 'nothing' });
  assert.equal(result.reason, 'criu dump: criu failed');
});

test('a restored program that finds damage, dies or stands still fails the stage', async (t) => {
  const cases: [Fault, RegExp][] = [
    ['finds damage', /expected 0x02$/],
    ['dies', /^the test program ended: /],
    ['stands still', /: the SDMA queue does not go on$/],
  ];
  for (const [fault, reason] of cases) {
    const { result } = await canary(t, { fault });
    assert.match(result.reason ?? '', reason);
  }
});

test('the reason in a log is the first error, without its time', () => {
  assert.equal(
    reasonIn('(00.123) Error (a.c:1): no\n(00.2) Error (b.c:2): x\n'),
    'Error (a.c:1): no',
  );
  assert.equal(reasonIn('Warn: y\n'), undefined);
  assert.equal(reasonIn(undefined), undefined);
});

test('times of a session come from its last lines, once it has ended', () => {
  const sealed = '{"content_bytes":5,"timings_us":{"drain":1,"freeze":2},"msg":"sealed"}';
  const ended = '{"timings_us":{"freeze":3},"msg":"session ended"}';
  assert.equal(sessionFacts(`${sealed}\n`), undefined);
  const facts = { contentBytes: 5, timings: { drain: 1, freeze: 3 } };
  assert.deepEqual(sessionFacts(`{"msg":"x"}\n${sealed}\n${ended}\n`), facts);
  assert.equal(sessionFacts(`${ended}\n`), undefined);
  assert.equal(sessionFacts('"msg":"session ended" {cut\n'), undefined);
});

test('the newest log of a kind is taken, and none from before; of a long file the end', async (t) => {
  const folder = await temporaryFolder(t);
  mkdirSync(join(folder, 'x'));
  for (const name of ['1Z-dump-1.log', '2Z-dump-1.log', '3Z-restore-1.log', '4Z-criu-dump-1.log']) {
    writeFileSync(join(folder, name), '');
  }
  assert.equal(await sessionLog(folder, 'dump', 0), join(folder, '2Z-dump-1.log'));
  assert.equal(await sessionLog(folder, 'dump', Date.now() + 60_000), undefined);
  assert.equal(await sessionLog(join(folder, 'none'), 'dump', 0), undefined);
  writeFileSync(join(folder, 'long'), `${'x'.repeat(1 << 20)}end`);
  const tail = (await tailOf(join(folder, 'long'))) ?? '';
  assert.ok(tail.endsWith('xend') && tail.length === 1 << 16);
  assert.equal(await tailOf(join(folder, 'x')), undefined);
});
