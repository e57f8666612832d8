import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, mkdir, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  checkpointTaskRequest,
  checkpointWorkPath,
  createTaskRequest,
  forwardRequest,
  restoreWorkPath,
  taskCheckpointed,
} from '../../shim/task/codec.js';
import { explain, firstError, firstWrittenSince } from '../../shim/task/criu-log.js';
import { responseFor } from '../../shim/task/status.js';
import { decodeResponse } from '../../shim/transport/envelope.js';
import { bytesField, numberField } from '../../shim/transport/fields.js';
import { type ErrorCode, exitCodes, KfdError } from '../../src/errors.js';
import { fixtures, repository, temporaryFolder } from './paths.js';
import { testServer } from './ttrpc-server.js';

/** Runs one task as the shim does. */
async function task(args: readonly string[], input: Buffer, env: Record<string, string> = {}) {
  const program = join(repository, 'dist/shim/task/main.js');
  const child = spawn(process.execPath, [program, ...args], { env: { ...process.env, ...env } });
  child.stdin.end(input);
  const output: Buffer[] = [];
  let errors = '';
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const status = await new Promise((resolve) => child.on('close', resolve));
  return { status, output: Buffer.concat(output), errors };
}

/** Options as field `number` of a request: their fields in an Any. */
function options(number: number, type: string, ...fields: Buffer[]): Buffer {
  return bytesField(
    number,
    Buffer.concat([bytesField(1, type), bytesField(2, Buffer.concat(fields))]),
  );
}

/** CheckpointTaskRequest whose log is wanted in the folder `work`, as containerd writes it. */
function checkpointInto(work: string): Buffer {
  const type = 'containerd.runc.v1.CheckpointOptions';
  const wanted = options(3, type, numberField(1, 1), bytesField(9, work));
  return Buffer.concat([bytesField(1, 'one'), bytesField(2, '/image'), wanted]);
}

test('requests are read by their description, whatever else is in them', () => {
  const create = createTaskRequest.decode(
    Buffer.concat([
      bytesField(1, 'one'),
      bytesField(2, '/bundle'),
      options(3, 'mount', Buffer.alloc(3)),
      bytesField(8, '/image'),
      options(10, 'containerd.runc.v1.Options', numberField(9, 1), bytesField(11, '/w')),
    ]),
  );
  assert.deepEqual([create.id, create.bundle, create.checkpoint], ['one', '/bundle', '/image']);
  assert.equal(restoreWorkPath(create.options), '/w');
  assert.equal(checkpointWorkPath(create.options), '', 'options of another call');
  const checkpoint = checkpointTaskRequest.decode(checkpointInto('/work'));
  assert.deepEqual([checkpoint.path, checkpointWorkPath(checkpoint.options)], ['/image', '/work']);
  assert.equal(checkpointWorkPath(checkpointTaskRequest.decode(bytesField(1, 'one')).options), '');
});

test('preflight: an image of another host is refused with every reason; one without a GPU is not', async (t) => {
  const folder = await temporaryFolder(t);
  const judge = async (image: string) => {
    const { status, output, errors } = await task(['preflight'], bytesField(8, image));
    assert.equal(status, 0, errors);
    return decodeResponse(output);
  };
  assert.deepEqual(await judge(folder), { code: 0, message: '', payload: Buffer.alloc(0) });
  await cp(join(fixtures, 'manifest-v1'), join(folder, 'image'), { recursive: true });
  const { code, message } = await judge(join(folder, 'image'));
  assert.equal(code, 9);
  assert.match(message, /^kfd-checkpoint: E_/);
  assert.match(
    (await judge(join(folder, 'none'))).message,
    /E_IMAGE_MISSING.*no such image directory/,
  );
});

test('publish: containerd hears of the checkpoint', async (t) => {
  const heard: unknown[] = [];
  const daemon = await testServer(t, ({ service, method, payload }) => {
    const { envelope } = forwardRequest.decode(payload);
    const event = taskCheckpointed.decode(envelope.event.value);
    heard.push([
      service,
      method,
      envelope.namespace,
      envelope.topic,
      envelope.event.type_url,
      event,
    ]);
    assert.ok(Math.abs(Number(envelope.timestamp.seconds) - Date.now() / 1000) < 60);
    return {};
  });
  const request = Buffer.concat([bytesField(1, 'one'), bytesField(2, '/image')]);
  const env = { TTRPC_ADDRESS: daemon.path, NAMESPACE: 'k8s.io' };
  const { status, output, errors } = await task(['publish'], request, env);
  assert.deepEqual([status, output.length, errors], [0, 0, '']);
  assert.deepEqual(heard, [
    [
      'containerd.services.events.ttrpc.v1.Events',
      'Forward',
      'k8s.io',
      '/tasks/checkpointed',
      'containerd.events.TaskCheckpointed',
      { container_id: 'one', checkpoint: '/image' },
    ],
  ]);
  const failed = await task(['publish'], Buffer.alloc(0), env);
  assert.deepEqual([failed.status, heard.length], [0, 1]);
  const nobody = await task(['publish'], request, { TTRPC_ADDRESS: '/not/there' });
  assert.equal(nobody.status, 1);
  assert.match(nobody.errors, /ENOENT/);
});

test('explain: the first error of the newest log is added, and the log is kept', async (t) => {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'work'));
  const since = Date.now();
  const log = join(folder, 'work/restore.log');
  await writeFile(
    log,
    '(00.1) Error (criu/files.c:1): first\n' +
      '(00.2)      7: Error (kfd-checkpoint): E_VRAM: why\n' +
      '(00.3) Error (criu/cr-restore.c:2): last\n',
  );
  assert.equal(await firstWrittenSince([join(folder, 'none'), folder, log], since), log);
  const whole = await explain('failed', 'restore', log, join(folder, 'logs'));
  const match = /^failed; CRIU: Error \(kfd-checkpoint\): E_VRAM: why; CRIU's log: (.*)$/.exec(
    whole,
  );
  assert.deepEqual(readFileSync(match?.[1] ?? ''), readFileSync(log));
  assert.equal(await explain('failed', 'restore', undefined, folder), 'failed');

  const long = new Date(since - 60_000);
  await utimes(log, long, long);
  assert.equal(await firstWrittenSince([log], since), undefined, 'a log of an earlier failure');
});

test('explain: looks where the caller wanted the log', async (t) => {
  const folder = await temporaryFolder(t);
  const work = join(folder, 'elsewhere');
  await mkdir(work);
  const since = String(Date.now());
  await writeFile(join(work, 'dump.log'), 'Error (criu/tty.c:1): why\n');
  const { status, output, errors } = await task(
    ['explain', 'dump', folder, since, 'failed'],
    checkpointInto(work),
  );
  assert.equal(status, 0, errors);
  const { message } = decodeResponse(output);
  const match = /^failed; CRIU: Error \(criu\/tty\.c:1\): why; CRIU's log: (\/.*)$/.exec(message);
  assert.ok(match?.[1], message);
  await rm(match[1]); // its copy in the host's folder of logs, or itself where that cannot be written
});

test('end-leftover: the runtime of Create ends a container that it has, and none else', async (t) => {
  const folder = await temporaryFolder(t);
  const asked = join(folder, 'asked');
  // Both programs that are run: they write what they were asked to do.
  const say = (status: number) => `#!/bin/sh\necho "\${0##*/} $@" >>${asked}\nexit ${status}\n`;
  await writeFile(join(folder, 'runtime'), say(0), { mode: 0o700 });
  await writeFile(join(folder, 'umount'), say(0), { mode: 0o700 });
  const type = 'containerd.runc.v1.Options';
  const named = [bytesField(6, join(folder, 'runtime')), bytesField(7, join(folder, 'root'))];
  const request = Buffer.concat([bytesField(1, 'one'), options(10, type, ...named)]);
  const env = { NAMESPACE: 'k8s.io', PATH: `${folder}:${process.env['PATH']}` };
  const container = join(folder, 'root/k8s.io/one');
  await mkdir(container, { recursive: true });

  const without = await task(['end-leftover'], request, env);
  assert.deepEqual([without.status, without.output.length, without.errors], [0, 0, '']);
  await writeFile(join(container, 'state.json'), '{}');
  assert.equal((await task(['end-leftover'], request, env)).status, 0);
  const removed = `runtime --root ${folder}/root/k8s.io delete --force one\n`;
  assert.equal(readFileSync(asked, 'utf8'), removed);
  // Its contents are those of the container.
  await mkdir(join(container, 'criu-root'));
  assert.equal((await task(['end-leftover'], request, env)).status, 0);
  assert.equal(
    readFileSync(asked, 'utf8'),
    `${removed}umount -l ${container}/criu-root\n${removed}`,
  );
  await writeFile(join(folder, 'umount'), say(1), { mode: 0o700 });
  await rm(asked);
  assert.equal((await task(['end-leftover'], request, env)).status, 1);
  assert.equal(readFileSync(asked, 'utf8'), `umount -l ${container}/criu-root\n`);
});

test('of CRIU’s errors the first counts, and none is longer than a message can bear', () => {
  assert.equal(firstError('(00.1) Warn\n(00.2) Error (a): x\nError (b): y\n'), 'Error (a): x');
  assert.equal(firstError('all is well\n'), undefined);
  assert.equal(firstError(`Error (a): ${'x'.repeat(5000)}`)?.length, 1000);
});

test('every error of ours has a status, and none of those that containerd takes for something else', () => {
  for (const code of Object.keys(exitCodes) as ErrorCode[]) {
    const { code: status, message } = responseFor(new KfdError(code, 'why', { hint: 'what now' }));
    assert.equal(message, `kfd-checkpoint: ${code}: why (what now)`);
    // Not OK, and not NotFound, AlreadyExists, Unimplemented, Unavailable.
    assert.ok(status > 0 && ![5, 6, 12, 14].includes(status), code);
  }
});

test('cancel: a call without a session is told so, once the time for one is over', async () => {
  // Each look at the clock takes half a minute.
  const clock = 'const now = Date.now; let more = 0; Date.now = () => now() + (more += 30_000);';
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(clock)}` };
  for (const [name, request] of [
    ['cancel-checkpoint', checkpointInto('/work')],
    ['cancel-restore', bytesField(2, '/not/there')],
  ] as const) {
    const { status, output, errors } = await task([name], request, env);
    assert.equal(status, 0, errors);
    const answer = { code: 5, message: 'no session', payload: Buffer.alloc(0) };
    assert.deepEqual(decodeResponse(output), answer, name);
  }
});
