import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { actionScript } from '../../src/criu/state-folder.js';
import { repository, temporaryFolder } from './paths.js';

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
];

/** An installation with the action script, and `launcher` in the place of the program. */
async function install(t: TestContext, launcher?: 'real' | string): Promise<string> {
  const prefix = join(await temporaryFolder(t), 'with a space');
  await mkdir(join(prefix, 'hooks'), { recursive: true });
  await mkdir(join(prefix, 'libexec'));
  await cp(join(repository, 'hooks/criu-action'), join(prefix, 'hooks/criu-action'));
  const place = join(prefix, 'libexec/kfd-checkpoint-launch');
  if (launcher === 'real') {
    await cp(join(repository, 'build/native/kfd-checkpoint-launch'), place);
  } else if (launcher !== undefined) {
    await writeFile(place, launcher);
    await chmod(place, 0o755);
  }
  return prefix;
}

function act(prefix: string, stage: string | undefined, images = '/proc/1/fd/0') {
  const { status, stdout, stderr } = spawnSync(join(prefix, 'hooks/criu-action'), [], {
    env: {
      PATH: '/usr/bin:/bin',
      CRTOOLS_IMAGE_DIR: images,
      CRTOOLS_INIT_PID: String(process.pid),
      ...(stage === undefined ? {} : { CRTOOLS_SCRIPT_ACTION: stage }),
    },
  });
  return { status, output: stdout.toString() + stderr.toString() };
}

test('a container without a GPU passes every stage in silence', async (t) => {
  const prefix = await install(t, 'real');
  for (const stage of [...stages, '', undefined]) {
    assert.deepEqual(act(prefix, stage), { status: 0, output: '' }, stage);
  }
});

test('only the stages with work to do start the launcher, and its word is CRIU’s', async (t) => {
  const prefix = await install(t, '#!/bin/sh\necho "$CRTOOLS_SCRIPT_ACTION"\nexit 1\n');
  const concerned = stages.filter((stage) => act(prefix, stage).status !== 0);
  assert.deepEqual(concerned, [
    'pre-dump',
    'post-dump',
    'pre-restore',
    'post-restore',
    'post-resume',
  ]);
  assert.deepEqual(act(prefix, 'post-restore'), { status: 1, output: 'post-restore\n' });
});

test('a launcher that is killed stops CRIU', async (t) => {
  const prefix = await install(t, '#!/bin/sh\nkill -9 $$\n');
  assert.notEqual(act(prefix, 'post-restore').status, 0);
});

test('half an installation stops nothing', async (t) => {
  const place = (prefix: string) => join(prefix, 'libexec/kfd-checkpoint-launch');
  const missing = await install(t);
  const notExecutable = await install(t, 'real');
  await chmod(place(notExecutable), 0o644);
  const folder = await install(t);
  await mkdir(place(folder));
  const noInterpreter = await install(t, '#!/nowhere/interpreter\n');
  const empty = await install(t, '');
  for (const prefix of [missing, notExecutable, folder, noInterpreter, empty]) {
    for (const stage of stages) assert.equal(act(prefix, stage).status, 0, `${prefix} ${stage}`);
  }
});

test('a launcher that misses a library stops nothing', async (t) => {
  // The loader ends a program with 127 then.
  const prefix = await install(t, '#!/bin/sh\nexit 127\n');
  for (const stage of stages) assert.equal(act(prefix, stage).status, 0, stage);
});

/** Makes it look as if a session of the CRIU that starts the scripts, this process, were waiting. */
async function waitingSession(t: TestContext): Promise<void> {
  const directory = `/run/kfd-checkpoint/${process.pid}`;
  await mkdir(directory, { recursive: true });
  t.after(() => rm(directory, { recursive: true }));
  await writeFile(join(directory, 'sock'), '');
}

test('a session that cannot be asked at its gate stops CRIU', async (t) => {
  const missing = await install(t);
  const unstartable = await install(t, '#!/nowhere/interpreter\n');
  const withoutLibrary = await install(t, '#!/bin/sh\nexit 127\n');
  const sound = await install(t, '#!/bin/sh\nexit 0\n');
  await waitingSession(t);
  for (const prefix of [missing, unstartable, withoutLibrary]) {
    const stopped = stages.filter((stage) => act(prefix, stage).status !== 0);
    assert.deepEqual(stopped, ['post-dump', 'post-restore']);
  }
  for (const stage of stages) assert.equal(act(sound, stage).status, 0, stage);
});

test('the script CRIU is told of goes on without the package, unless a session waits', async (t) => {
  const prefix = await temporaryFolder(t);
  const outer = join(prefix, 'outer');
  await mkdir(join(outer, 'hooks'), { recursive: true });
  await writeFile(join(outer, 'hooks/criu-action'), actionScript(prefix), { mode: 0o755 });
  await mkdir(join(prefix, 'hooks'));
  const packaged = join(prefix, 'hooks/criu-action');
  // Its parent is CRIU itself, as the script's parent is: sockets are found by that pid.
  await writeFile(packaged, '#!/bin/sh\necho $PPID $CRTOOLS_SCRIPT_ACTION\nexit 3\n', {
    mode: 0o755,
  });
  assert.deepEqual(act(outer, 'pre-dump'), { status: 3, output: `${process.pid} pre-dump\n` });

  const ruins = [
    () => chmod(packaged, 0o644),
    () => rm(join(prefix, 'hooks'), { recursive: true }),
  ];
  for (const ruin of ruins) {
    await ruin();
    for (const stage of [...stages, undefined]) {
      assert.deepEqual(act(outer, stage), { status: 0, output: '' }, stage);
    }
  }
  await waitingSession(t);
  const stopped = stages.filter((stage) => act(outer, stage).status !== 0);
  assert.deepEqual(stopped, ['post-dump', 'post-restore']);
});

/** What the daemon says to the launcher when it is started for a restore of `images`. */
async function startSession(t: TestContext, images: string, operation = 'restore') {
  const criu = spawn('sleep', ['60'], { stdio: 'ignore' });
  t.after(() => criu.kill('SIGKILL'));
  const daemon = spawn(
    process.execPath,
    [join(repository, 'dist/src/session/main.js'), operation, String(criu.pid), images, '1'],
    { stdio: ['ignore', 'ignore', 'pipe', 'pipe'] },
  );
  t.after(() => daemon.kill('SIGKILL'));
  let answer = '';
  const pipe = daemon.stdio[3];
  assert.ok(pipe !== null && pipe !== undefined && 'read' in pipe);
  pipe.on('data', (chunk: Buffer) => {
    answer += chunk.toString();
  });
  let errors = '';
  daemon.stderr?.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const closed = once(daemon, 'close');
  await once(pipe, 'end');
  return { criu, daemon, answer, errors: closed.then(() => errors) };
}

test('a session ends with its CRIU and leaves nothing behind', async (t) => {
  const images = await temporaryFolder(t);
  const { criu, daemon, answer } = await startSession(t, images);
  assert.equal(answer, 'ready\n');
  const directory = `/run/kfd-checkpoint/${criu.pid}`;
  assert.deepEqual(await readdir(directory), ['sock']);
  const ended = once(daemon, 'exit');
  criu.kill('SIGKILL');
  assert.deepEqual(await ended, [0, null]);
  await assert.rejects(readdir(directory), { code: 'ENOENT' });
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
  const wrong = await startSession(t, images, 'neither');
  assert.match(wrong.answer, /^E_INTERNAL: session: usage: /);
});
