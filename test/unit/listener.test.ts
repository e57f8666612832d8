import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultConfig } from '../../src/config.js';
import { KfdError } from '../../src/errors.js';
import { type Delivery, type Descriptor, native } from '../../src/native.js';
import { SessionContext } from '../../src/session/context.js';
import { type Handler, serveMessages } from '../../src/session/plugin/serve-messages.js';
import { messageType } from '../../src/session/plugin/wire.js';
import { repository, temporaryFolder } from './paths.js';

const mayContinue = 10;
const stop = 11;

/** Runs the launcher for a stage of a dump by this very process, or another. */
async function launch(
  stage: string,
  criuPid = process.pid,
): Promise<{ status: number | null; errors: string }> {
  const child = spawn(join(repository, 'build/native/kfd-checkpoint-launch'), ['/nowhere'], {
    env: { CRTOOLS_SCRIPT_ACTION: stage, CRTOOLS_IMAGE_DIR: `/proc/${criuPid}/fd/0` },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, errors };
}

/** A session of this process as its own CRIU, with `handlers`. */
async function session(t: TestContext, handlers: readonly [number, Handler][], everyMs?: number) {
  const folder = await temporaryFolder(t);
  const config = { ...defaultConfig(), log_dir: folder };
  await rm(`/run/kfd-checkpoint/${process.pid}`, { recursive: true, force: true });
  const context = new SessionContext(
    { operation: 'dump', criuPid: process.pid, imageDirectory: folder },
    config,
  );
  const errors: KfdError[] = [];
  serveMessages(context, new Map(handlers), (error) => errors.push(error), everyMs);
  t.after(() => context.close());
  return { context, errors };
}

test('a session answers the launcher: continue, or a reason against it', async (t) => {
  const heard: string[] = [];
  const { context, errors } = await session(t, [
    [
      messageType.stage,
      async (message) => {
        const stage = message.body.toString();
        heard.push(`${stage} ${message.args.join()} ${message.fds.length}`);
        await sleep(1);
        if (stage === 'post-restore') {
          throw new KfdError('E_VRAM', 'gpu 0: full', { hint: 'empty it' });
        }
        return {};
      },
    ],
  ]);
  assert.deepEqual(await launch('post-dump'), { status: mayContinue, errors: '' });
  const refused = await launch('post-restore');
  assert.equal(refused.status, stop);
  assert.equal(
    refused.errors,
    `Error (kfd-checkpoint): E_VRAM: gpu 0: full (empty it); session log: ${context.logPath}\n`,
  );
  assert.deepEqual(heard, ['post-dump 0,0,0,0 0', 'post-restore 0,0,0,0 0']);
  assert.deepEqual(
    errors.map(({ code }) => code),
    ['E_VRAM'],
  );
  context.close();
  const gone = await launch('post-dump');
  assert.equal(gone.status, stop);
  assert.match(gone.errors, /the session died: .*No such file/);
});

test('the launcher waits for an answer that takes long: it hears that the session works', async (t) => {
  await session(t, [[messageType.stage, () => sleep(300).then(() => ({}))]], 20);
  assert.deepEqual(await launch('post-dump'), { status: mayContinue, errors: '' });
});

test('a message nobody expects is answered with E_PROTOCOL', async (t) => {
  const { errors } = await session(t, []);
  const { status, errors: text } = await launch('post-dump');
  assert.equal(status, stop);
  assert.match(text, /E_PROTOCOL: message 10: not expected in this session/);
  assert.equal(errors.length, 1);
});

test('closing a session lets go of everybody who waits for an answer', async (t) => {
  const descriptors = () => readdirSync('/proc/self/fd').length;
  let asked: (() => void) | undefined;
  const question = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const { context } = await session(t, [
    [
      messageType.stage,
      () => {
        asked?.();
        return undefined; // no answer ever
      },
    ],
  ]);
  const before = descriptors();
  const waiting = launch('post-dump');
  await question;
  context.close();
  const { status, errors } = await waiting;
  assert.equal(status, stop);
  assert.match(errors, /the session ended/);
  assert.ok(descriptors() <= before);
  assert.throws(() => readdirSync(`/run/kfd-checkpoint/${process.pid}`), { code: 'ENOENT' });
});

test('a listener tells who asked and when they leave', async (t) => {
  const directory = `/run/kfd-checkpoint/${process.pid}`;
  await mkdir(directory, { recursive: true });
  t.after(() => rm(directory, { recursive: true, force: true }));
  const deliveries: Delivery[] = [];
  const listener = new (native().Listener)(join(directory, 'sock'), (delivery) => {
    deliveries.push(delivery);
    if (delivery.closed !== true) listener.reply(delivery.peer, messageType.ok, [1, 2], '', []);
  });
  t.after(() => listener.close());
  await launch('post-dump');
  while (deliveries.length < 2) await sleep(1);
  const [message, end] = deliveries;
  assert.ok(message?.closed !== true && end?.closed === true);
  assert.equal(message?.type, messageType.stage);
  assert.equal(end.peer, message?.peer);
  assert.equal(end.reason, undefined);
  assert.notEqual(message?.pid, process.pid);
  assert.equal(end.pid, message?.pid);
  const gone = end.peer;
  assert.throws(() => listener.reply(gone, messageType.ok, [], '', []), { code: 'KFD_IO' });
  assert.throws(() => listener.reply(gone, messageType.ok, [-1], '', []), TypeError);
  const notOurs = [{ fd: 0, close() {} }] as Descriptor[];
  assert.throws(() => listener.reply(gone, messageType.ok, [], '', notOurs), TypeError);
  assert.throws(() => new (native().Listener)(join(directory, 'sock'), () => {}), {
    code: 'KFD_IO',
  });
});

// With a limit of 1, poll() refuses to wait any more, too.
for (const limit of [1, 8]) {
  test(`without descriptors (limit ${limit}) a listener turns its callers away and says so`, async (t) => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'listener-process.js')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const pid = child.pid ?? 0;
    t.after(() => {
      child.kill('SIGKILL');
      return rm(`/run/kfd-checkpoint/${pid}`, { recursive: true, force: true });
    });
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    assert.equal((await lines.next()).value, 'ready');
    execFileSync('prlimit', ['--pid', String(pid), `--nofile=${limit}:${limit}`]);
    const { status, errors } = await launch('post-dump', pid);
    assert.equal(status, stop);
    assert.match(errors, /the session died: /);
    const { deaf } = JSON.parse((await lines.next()).value as string);
    assert.equal(deaf, 'Too many open files');
  });
}
