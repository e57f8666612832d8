import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { renderActionScript } from '../../src/criu/state-folder.js';
import { SessionClient } from '../../src/session/control/client.js';
import type { SessionStatus } from '../../src/session/control/types.js';
import { repository, temporaryFolder } from './paths.js';
import { startSession } from './session-process.js';

/** Every value CRIU 4.x gives (criu/action-scripts.c), and one it may give one day. */
const stages = [
  'pre-stream',
  'pre-dump',
  'post-dump',
  'pre-restore',
  'post-restore',
  'pre-resume',
  'post-resume',
  'network-lock',
  'network-unlock',
  'setup-namespaces',
  'post-setup-namespaces',
  'orphan-pts-master',
  'status-ready',
  'query-ext-files',
  'of-the-future',
  '',
];

/** The folder the script is copied to, with `launcher` in the place of the program. */
async function install(t: TestContext, launcher?: 'real' | string): Promise<string> {
  const folder = join(await temporaryFolder(t), 'with a space');
  await mkdir(folder);
  const template = await readFile(join(repository, 'hooks/criu-action'), 'utf8');
  const script = renderActionScript(template, '/nowhere/package');
  await writeFile(join(folder, 'criu-action'), script, { mode: 0o755 });
  const place = join(folder, 'kfd-checkpoint-launch');
  if (launcher === 'real') {
    await cp(join(repository, 'build/native/kfd-checkpoint-launch'), place);
  } else if (launcher !== undefined) {
    await writeFile(place, launcher, { mode: 0o755 });
  }
  return folder;
}

function act(folder: string, stage: string) {
  const { status, stdout, stderr } = spawnSync(join(folder, 'criu-action'), [], {
    env: {
      PATH: '/usr/bin:/bin',
      CRTOOLS_IMAGE_DIR: '/proc/1/fd/0',
      CRTOOLS_SCRIPT_ACTION: stage,
    },
  });
  return { status, output: stdout.toString() + stderr.toString() };
}

/** The stages at which the script ends CRIU. */
function stopped(folder: string): string[] {
  return stages.filter((stage) => act(folder, stage).status !== 0);
}

/** What damage makes of the launcher; undefined: it is not there. None of it is a word of its. */
const ruins: Record<string, string | undefined> = {
  missing: undefined,
  empty: '',
  garbage: '\x7fELF\n)(',
  'without its interpreter': '#!/nowhere/interpreter\n',
  'without a library': '#!/bin/sh\nexit 127\n',
  'a script that fails': '#!/bin/sh\nexit 1\n',
  'a script that succeeds': '#!/bin/sh\nexit 0\n',
  killed: '#!/bin/sh\nkill -9 $$\n',
};

/** The stages of which a session has to hear. */
const heard = ['pre-dump', 'post-dump', 'pre-restore', 'post-restore', 'post-resume'];

test('the launcher is asked where a session has something to do, and its word decides', async (t) => {
  const telling = await install(t, '#!/bin/sh\necho "$CRTOOLS_SCRIPT_ACTION $1"\nexit 10\n');
  for (const stage of stages) {
    const output = heard.includes(stage) ? `${stage} /nowhere/package\n` : '';
    assert.deepEqual(act(telling, stage), { status: 0, output });
  }
  assert.deepEqual(stopped(await install(t, '#!/bin/sh\nexit 11\n')), heard);
});

test('whatever became of the launcher, no stage passes without its word', async (t) => {
  for (const [name, launcher] of Object.entries(ruins)) {
    const folder = await install(t, launcher);
    assert.deepEqual(stopped(folder), heard, name);
    assert.match(act(folder, 'post-dump').output, /Error \(kfd-checkpoint\): .*status \d+; run/);
  }
  const notExecutable = await install(t, 'real');
  await chmod(join(notExecutable, 'kfd-checkpoint-launch'), 0o644);
  assert.deepEqual(stopped(notExecutable), heard);
  const directory = await install(t);
  await mkdir(join(directory, 'kfd-checkpoint-launch'));
  assert.deepEqual(stopped(directory), heard);
});

test('the leftovers of a killed session go at the start, whatever they are', async (t) => {
  const run = `/run/kfd-checkpoint/${process.pid}`; // this process plays CRIU
  t.after(() => rm(run, { recursive: true, force: true }));
  const folder = await install(t, '#!/bin/sh\nexit 10\n');
  for (const stage of stages) {
    await mkdir(join(run, 'more'), { recursive: true });
    await writeFile(join(run, 'sock'), '');
    assert.equal(act(folder, stage).status, 0);
    if (stage === 'pre-dump' || stage === 'pre-restore') {
      await assert.rejects(readdir(run), { code: 'ENOENT' });
    } else {
      assert.deepEqual((await readdir(run)).sort(), ['more', 'sock']);
    }
  }
});

test('a session ends with its CRIU and leaves nothing behind', async (t) => {
  const images = await temporaryFolder(t);
  const { criu, daemon, answer } = await startSession(t, images);
  assert.equal(answer, 'ready\n');
  const directory = `/run/kfd-checkpoint/${criu.pid}`;
  assert.ok((await readdir(directory)).includes('sock'));
  const ended = once(daemon, 'exit');
  criu.kill('SIGKILL');
  assert.deepEqual(await ended, [0, null]);
  await assert.rejects(readdir(directory), { code: 'ENOENT' });
});

test('a session can be watched to its end, and cancelled', async (t) => {
  const { criu, daemon } = await startSession(t, await temporaryFolder(t));
  const pid = criu.pid ?? -1;
  const socket = `/run/kfd-checkpoint/${pid}/control.sock`;
  while (!existsSync(socket)) await delay(10);
  await delay(50); // it is bound before it listens
  assert.equal(daemon.exitCode, null);
  const ended = once(daemon, 'exit');
  const statuses: SessionStatus[] = [];
  await SessionClient.with('/', pid, async (client) => {
    for await (const status of client.watch(new AbortController().signal)) {
      if (statuses.push(status) === 1) await client.cancel('enough');
      if (status.cancelled) criu.kill('SIGKILL');
    }
  });
  const [first] = statuses;
  assert.equal(first?.operation, 'OPERATION_RESTORE');
  assert.equal(first.criu_pid, pid);
  assert.equal(first.phase, 'wait_for_tasks');
  assert.deepEqual([first.cancelled, statuses.at(-1)?.cancelled], [false, true]);
  assert.deepEqual(statuses.at(-1)?.result, {
    outcome: 'failed',
    success: false,
    code: 'E_CANCELLED',
    message: 'session: cancelled: enough',
  });
  assert.deepEqual(await ended, [0, null]);
});

test('a session that cannot work says why, and does not stay', async (t) => {
  const images = await temporaryFolder(t);
  await writeFile(join(images, 'kfd-state-0.img'), '');
  const unsealed = await startSession(t, images);
  assert.match(unsealed.answer, /^E_IMAGE_UNSEALED: image: 1 GPU file.*; session log: \/.*\.log$/);
  const log = unsealed.answer.split('session log: ')[1] ?? '';
  assert.match(await readFile(log, 'utf8'), /E_IMAGE_UNSEALED/);
  await assert.rejects(readdir(`/run/kfd-checkpoint/${unsealed.criu.pid}`), { code: 'ENOENT' });
});

test('a session that comes to no log of its own says what is wrong and what to do', async (t) => {
  const images = await temporaryFolder(t);
  const early = '; session log: /var/log/kfd-checkpoint/session-stderr.log';
  const nowhere = join(images, 'nowhere');
  const { answer, errors } = await startSession(t, nowhere);
  const reason = `${nowhere}: no such image directory`;
  assert.equal(
    answer,
    `E_IMAGE_MISSING: ${reason} (CRIU has ended or closed it: see its own log)${early}`,
  );
  assert.match(await errors, /no such image directory(.|\n)*\[cause\]: Error: ENOENT/);

  const loop = join(images, 'loop');
  await symlink(loop, loop);
  const looping = await startSession(t, loop);
  assert.match(looping.answer, /^E_IO: image directory: ELOOP: /);
  const wrong = await startSession(t, images, { operation: 'neither' });
  assert.match(wrong.answer, /^E_INTERNAL: session: usage: /);
});

test('a session whose launcher has died ends with its CRIU, and leaves nothing behind', async (t) => {
  const images = await temporaryFolder(t);
  const criu = spawn('sleep', ['60'], { stdio: 'ignore' });
  t.after(() => criu.kill('SIGKILL'));
  // The reader of the pipe has gone, like a launcher that was killed.
  const program = join(repository, 'dist/src/session/main.js');
  const daemon = spawn(
    'sh',
    ['-c', '{ sleep 0.1; exec "$@" 3>&1 1>/dev/null; } | true; sleep 30', 'sh'].concat([
      process.execPath,
      ...[program, 'restore', String(criu.pid), images],
    ]),
    { stdio: 'ignore' },
  );
  t.after(() => daemon.kill('SIGKILL'));
  const directory = `/run/kfd-checkpoint/${criu.pid}`;
  const there = () => existsSync(join(directory, 'control.sock'));
  for (let n = 0; n < 500 && !there(); n++) await delay(10);
  criu.kill('SIGKILL');
  for (let n = 0; n < 200 && existsSync(directory); n++) await delay(20);
  assert.ok(!existsSync(directory), 'its folder stays');
});

test('a session removes the folder of one that was killed', async (t) => {
  const killed = await startSession(t, await temporaryFolder(t));
  const folder = `/run/kfd-checkpoint/${killed.criu.pid}`;
  const gone = once(killed.daemon, 'exit');
  killed.daemon.kill('SIGKILL');
  await gone;
  assert.ok(existsSync(folder));
  const next = await startSession(t, await temporaryFolder(t));
  for (let n = 0; n < 200 && existsSync(folder); n++) await delay(20);
  assert.ok(!existsSync(folder), 'nobody else would remove it');
  const ended = once(next.daemon, 'exit');
  next.criu.kill('SIGKILL');
  await ended;
});
