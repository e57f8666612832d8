import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
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
import { responseFor } from '../../shim/task/status.js';
import { type ErrorCode, exitCodes, KfdError } from '../../src/errors.js';
import { bytesField, numberField } from '../../src/protobuf.js';
import { decodeResponse } from '../../src/ttrpc/envelope.js';
import { fixtures, temporaryFolder } from './paths.js';
import { checkpointInto, options, task } from './task-process.js';
import { testServer } from './ttrpc-server.js';

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
  const other = { type_url: 'runtimeoptions.v1.Options', value: bytesField(11, '/w') };
  for (const options of [null, other]) assert.equal(restoreWorkPath(options), '');
  const empty = { type_url: 'containerd.runc.v1.CheckpointOptions', value: Buffer.alloc(0) };
  assert.equal(checkpointWorkPath(empty), '');
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
  const times: number[] = [];
  let isRefused = false;
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
    const { seconds, nanos } = envelope.timestamp;
    const ms = Number(seconds) * 1000 + nanos / 1_000_000;
    assert.ok(Number.isInteger(ms) && nanos < 1_000_000_000, `${seconds} ${nanos}`);
    times.push(ms);
    return isRefused ? { code: 13, message: 'no room for events' } : {};
  });
  const request = Buffer.concat([bytesField(1, 'one'), bytesField(2, '/image')]);
  const env = { TTRPC_ADDRESS: daemon.path, NAMESPACE: 'k8s.io' };
  const begun = Date.now();
  const { status, output, errors } = await task(['publish'], request, env);
  assert.deepEqual([status, output.length, errors], [0, 0, '']);
  const [at = 0] = times;
  assert.ok(begun <= at && at <= Date.now(), `${begun} ${at}`);
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
  isRefused = true;
  const refused = await task(['publish'], request, env);
  assert.deepEqual([refused.status, refused.errors], [1, 'containerd: no room for events\n']);
  const nobody = await task(['publish'], request, { TTRPC_ADDRESS: '/not/there' });
  assert.equal(nobody.status, 1);
  assert.match(nobody.errors, /ENOENT/);
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

test('end-leftover: without options it is runc, and its folder is containerd’s', async (t) => {
  const folder = await temporaryFolder(t);
  const asked = join(folder, 'asked');
  await writeFile(join(folder, 'runc'), `#!/bin/sh\necho "$@" >>${asked}\n`, { mode: 0o700 });
  for (const root of ['root/k8s.io', 'k8s.io']) {
    await mkdir(join(folder, root, 'one'), { recursive: true });
    await writeFile(join(folder, root, 'one/state.json'), '{}');
  }
  const env = { NAMESPACE: 'k8s.io', PATH: `${folder}:${process.env['PATH']}` };
  const rooted = options(10, 'containerd.runc.v1.Options', bytesField(7, join(folder, 'root')));
  const one = bytesField(1, 'one');
  for (const request of [one, Buffer.concat([one, rooted])]) {
    const { status, errors } = await task(['end-leftover'], request, env, folder);
    assert.deepEqual([status, errors], [0, '']);
  }
  const expected = `--root ${folder}/root/k8s.io delete --force one\n`;
  assert.equal(readFileSync(asked, 'utf8'), expected, 'none in the folder that it was started in');
});

test('every error of ours has a status, and none of those that containerd takes for something else', () => {
  for (const code of Object.keys(exitCodes) as ErrorCode[]) {
    const { code: status, message } = responseFor(new KfdError(code, 'why', { hint: 'what now' }));
    assert.equal(message, `kfd-checkpoint: ${code}: why (what now)`);
    assert.equal(responseFor(new KfdError(code, 'why')).message, `kfd-checkpoint: ${code}: why`);
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
