/** The spare session, and the launcher that gives it work: the programs themselves, for a CRIU that is a sleep. */

import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Delivery, native } from '../../src/native.js';
import { SpareEnded, spareSocket, waitForWork, workOf } from '../../src/session/spare.js';
import { repository, temporaryFolder } from './paths.js';

const launcher = join(repository, 'build/native/kfd-checkpoint-launch');
const main = 'dist/src/session/main.js';
const goOn = 10;
/** native/test/launcher/launcher_test.cc has it, too. */
const turnFile = '/run/kfd-checkpoint-spare-test.lock';

/** Native tests, and others of this file's process, use the socket of the host, too. They have their turns. */
before(async () => {
  const turn = spawn('flock', [turnFile, 'sh', '-c', 'echo mine; cat'], {
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  await once(turn.stdout, 'data');
  after(() => turn.stdin.end());
});

/** Somebody listens there, and not only has bound it: the kernel's flag __SO_ACCEPTCON (net/unix/af_unix.c). */
function isListening(): boolean {
  const sockets = readFileSync('/proc/net/unix', 'utf8').split('\n');
  return sockets.some((line) => line.endsWith(` ${spareSocket}`) && / 00010000 /.test(line));
}

/** Rejects after 20 s. */
async function until(what: string, holds: () => boolean): Promise<void> {
  for (let turn = 0; turn < 1000; turn++) {
    if (holds()) return;
    await sleep(20);
  }
  throw new Error(`not within 20 s: ${what}`);
}

/** The spare session of the package in `folder`, as its unit starts it. Returns when one waits. */
async function startSpare(t: TestContext, folder = repository) {
  await rm(spareSocket, { force: true });
  return startAnother(t, folder);
}

/** The handler of the unit's signal is set when the program has been looked at: field SigCgt of proc_pid_status(5). */
function waitsForTurn({ pid }: ChildProcess): boolean {
  const [, caught = '0'] =
    /^SigCgt:\s+([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return ((BigInt(`0x${caught}`) >> BigInt(constants.signals.SIGUSR2 - 1)) & 1n) === 1n;
}

/** The same beside one that waits already. */
async function startAnother(t: TestContext, folder = repository) {
  const spare = spawn(process.execPath, [join(folder, main), 'spare'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.after(() => spare.kill('SIGKILL'));
  let errors = '';
  spare.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const ended = once(spare, 'close') as Promise<[number | null, string | null]>;
  const isReady = () => existsSync(spareSocket) && isListening() && waitsForTurn(spare);
  await until('it waits', () => spare.exitCode !== null || isReady());
  assert.equal(errors, '');
  return { spare, ended };
}

/** A sleep in the place of CRIU, whose descriptor 3 is the image directory. */
async function playedCriu(t: TestContext): Promise<ChildProcess> {
  const images = openSync(await temporaryFolder(t), 'r');
  const criu = spawn('sleep', ['60'], { stdio: ['ignore', 'ignore', 'ignore', images] });
  closeSync(images);
  t.after(() => criu.kill('SIGKILL'));
  return criu;
}

/** What CRIU's action script gets of the launcher when a restore begins, and the pid of the session. */
async function launch(t: TestContext, { pid }: ChildProcess, folder = repository) {
  const env = {
    PATH: process.env['PATH'],
    CRTOOLS_SCRIPT_ACTION: 'pre-restore',
    CRTOOLS_IMAGE_DIR: `/proc/${pid}/fd/3`,
  };
  t.after(() => rm(`/run/kfd-checkpoint/${pid}`, { recursive: true, force: true }));
  const status = await new Promise<unknown>((resolve) => {
    execFile(launcher, [folder], { env }, (error) => resolve(error?.code ?? 0));
  });
  const owner = readFileSync(`/run/kfd-checkpoint/${pid}/owner`, 'utf8');
  return { status, session: Number(owner.split('-')[0]) };
}

/** CRIU ends, and its session with it. */
async function endCriu(criu: ChildProcess): Promise<void> {
  criu.kill('SIGKILL');
  await until('its session ends', () => !existsSync(`/run/kfd-checkpoint/${criu.pid}`));
}

/** A package with a program of its own, which is the repository's. */
async function playedPackage(t: TestContext): Promise<string> {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'dist/src/session'), { recursive: true });
  await symlink(join(repository, 'libexec'), join(folder, 'libexec'));
  await replaceProgram(folder);
  return folder;
}

async function replaceProgram(folder: string): Promise<void> {
  const fresh = join(folder, 'fresh.mjs');
  await writeFile(fresh, `import ${JSON.stringify(join(repository, main))};\n`);
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  await rename(fresh, join(folder, main));
}

test('a launcher gives its work to the spare session, which ends with CRIU', async (t) => {
  const { spare, ended } = await startSpare(t);
  const criu = await playedCriu(t);
  assert.deepEqual(await launch(t, criu), { status: goOn, session: spare.pid });
  assert.ok(!existsSync(spareSocket), 'it has work, and listens no more');
  const cgroup = readFileSync(`/proc/${spare.pid}/cgroup`, 'utf8');
  assert.match(cgroup, /^\d+:[^:]*:\/(kfd-checkpoint.*)?$/m);
  if (cgroup.includes('0::/') && existsSync('/sys/fs/cgroup/cgroup.controllers'))
    assert.match(cgroup, new RegExp(`^0::/kfd-checkpoint/${criu.pid}$`, 'm'));
  spare.kill('SIGUSR2');
  await sleep(100);
  assert.equal(spare.exitCode, null, 'the unit was stopped: it goes on with its work');
  await endCriu(criu);
  assert.deepEqual(await ended, [0, null]);
});

test('without a spare session, or while it has work, the launcher starts one', async (t) => {
  await rm(spareSocket, { force: true });
  const alone = await playedCriu(t);
  assert.equal((await launch(t, alone)).status, goOn);
  await endCriu(alone);
  const { spare } = await startSpare(t);
  const [one, other] = [await playedCriu(t), await playedCriu(t)];
  assert.equal((await launch(t, one)).session, spare.pid);
  const second = await launch(t, other);
  assert.equal(second.status, goOn);
  assert.notEqual(second.session, spare.pid);
  await endCriu(one);
  await endCriu(other);
});

test('beside a spare session another one waits for its turn, or ends with its unit', async (t) => {
  const { spare: first } = await startSpare(t);
  const [second, third] = [await startAnother(t), await startAnother(t)];
  third.spare.kill('SIGUSR2');
  assert.deepEqual(await third.ended, [0, null]);
  const [one, other] = [await playedCriu(t), await playedCriu(t)];
  assert.equal((await launch(t, one)).session, first.pid);
  await until('the second listens', isListening);
  assert.equal((await launch(t, other)).session, second.spare.pid);
  await endCriu(one);
  await endCriu(other);
});

test('a spare session that is stopped is not waited for, and takes nothing later', async (t) => {
  const { spare, ended } = await startSpare(t);
  spare.kill('SIGSTOP');
  const criu = await playedCriu(t);
  const { status, session } = await launch(t, criu);
  assert.equal(status, goOn);
  assert.notEqual(session, spare.pid);
  spare.kill('SIGCONT');
  assert.deepEqual(await ended, [0, null]);
  await endCriu(criu);
});

test('a spare session of another program goes on waiting', async (t) => {
  const { spare } = await startSpare(t);
  const criu = await playedCriu(t);
  const { status, session } = await launch(t, criu, await playedPackage(t));
  assert.equal(status, goOn);
  assert.notEqual(session, spare.pid);
  await endCriu(criu);
  const next = await playedCriu(t);
  assert.equal((await launch(t, next)).session, spare.pid);
  await endCriu(next);
});

test('a spare session whose program was replaced ends', async (t) => {
  const folder = await playedPackage(t);
  const { spare, ended } = await startSpare(t, folder);
  await replaceProgram(folder);
  const criu = await playedCriu(t);
  const { status, session } = await launch(t, criu, folder);
  assert.equal(status, goOn);
  assert.notEqual(session, spare.pid);
  assert.deepEqual(await ended, [0, null]);
  await endCriu(criu);
});

test('one that has waited for its turn does not take work of a program that has replaced its own', async (t) => {
  const folder = await playedPackage(t);
  const first = await startSpare(t);
  const { spare, ended } = await startAnother(t, folder);
  await replaceProgram(folder);
  first.spare.kill('SIGUSR2');
  await first.ended;
  await until('the other one listens', isListening);
  const criu = await playedCriu(t);
  assert.equal((await launch(t, criu, folder)).status, goOn);
  await until('it ends', () => spare.exitCode !== null);
  assert.deepEqual(await ended, [0, null]);
  await endCriu(criu);
});

test('a spare session that waits ends with its unit', async (t) => {
  const { spare, ended } = await startSpare(t);
  spare.kill('SIGUSR2');
  assert.deepEqual(await ended, [0, null]);
  assert.ok(!existsSync(spareSocket));
});

/** What a launcher would say that has seen this program here. */
function agreed(program: string): Buffer {
  const { ino, ctimeNs } = statSync(program, { bigint: true });
  const [seconds, rest] = [ctimeNs / 1_000_000_000n, ctimeNs % 1_000_000_000n];
  const [mounts, pids] = ['mnt', 'pid'].map((kind) => readlinkSync(`/proc/self/ns/${kind}`));
  return Buffer.from(`${ino} ${seconds} ${rest} ${mounts} ${pids}`);
}

test('a spare session that is promised to a launcher is left to it', async (t) => {
  const answers: unknown[][] = [];
  let hear: (delivery: Delivery) => void = () => assert.fail('nobody listens');
  const construct = function Listener(_: string, onMessage: typeof hear) {
    hear = onMessage;
    return { reply: (...answer: unknown[]) => answers.push(answer.slice(0, 2)), close: () => {} };
  };
  t.mock.method(native(), 'Listener', construct as never);
  t.after(() => process.removeAllListeners('SIGUSR2'));
  const folder = await temporaryFolder(t);
  const program = join(folder, 'main.js');
  await writeFile(program, '');
  const work = waitForWork(program);
  const message = { pid: 2, args: [0, 7, 0, 0], fds: [] };
  const wanted = { ...message, type: 50, body: agreed(program) };
  hear({ ...wanted, peer: 1 });
  // Neither its unit, nor an update, nor another launcher takes it away.
  process.emit('SIGUSR2');
  await writeFile(join(folder, 'other'), '');
  await rename(join(folder, 'other'), program);
  hear({ ...wanted, peer: 2 });
  hear({ pid: 2, peer: 2, closed: true });
  assert.deepEqual(answers, [
    [1, 1],
    [2, 2],
  ]);
  const pipe = { fd: 9, close: () => {} };
  hear({ ...message, type: 51, peer: 2, body: Buffer.from('/proc/8/fd/4'), fds: [pipe] });
  hear({ ...message, type: 51, peer: 1, body: Buffer.from('/proc/7/fd/4'), fds: [pipe] });
  assert.deepEqual((await work).request, {
    operation: 'dump',
    criuPid: 7,
    imageDirectory: '/proc/7/fd/4',
  });
});

test('work that is none is not begun', () => {
  const pipe = { fd: 9, close: () => {} };
  const message = { peer: 1, pid: 2, type: 51 };
  const read = (args: number[], directory: string, fds = [pipe]) =>
    workOf({ ...message, args, body: Buffer.from(directory), fds });
  assert.deepEqual(read([0, 7, 0, 0], '/proc/7/fd/4'), {
    request: { operation: 'dump', criuPid: 7, imageDirectory: '/proc/7/fd/4' },
    ready: pipe,
  });
  assert.equal(read([1, 7, 0, 0], '/proc/7/fd/4').request.operation, 'restore');
  const none: [number[], string, (typeof pipe)[]?][] = [
    [[2, 7], '/proc/7/fd/4'],
    [[0, 0], '/proc/7/fd/4'],
    [[0], '/proc/7/fd/4'],
    [[0, 7], '/proc/7/fd/4/..'],
    [[0, 7], '/tmp'],
    [[0, 7], '/proc/7/fd/4', []],
    [[0, 7], '/proc/7/fd/4', [pipe, pipe]],
  ];
  for (const [args, directory, fds] of none) {
    assert.throws(() => read(args, directory, fds), SpareEnded, directory);
  }
});
