import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { isTemporaryImage, temporaryFolder } from '../../shim/intercept/temporary-image.js';
import { bytesField, numberField } from '../../src/protobuf.js';
import { encodeResponse } from '../../src/ttrpc/envelope.js';
import { field, id, refusal, world } from './intercept-world.js';

const gpuSpec = {
  ociVersion: '1.2.0',
  process: { rlimits: [{ type: 'RLIMIT_CORE', hard: 1 }] },
  annotations: { 'some.one': 'else' },
  linux: {
    devices: [{ path: '/dev/null' }, { path: '/dev/kfd', type: 'c', major: 234, minor: 0 }],
  },
};

test('a container without a GPU and without an image is created and started as it was asked for', async (t) => {
  const { bundle, call, seen, asked, troubles } = await world(t, { spec: { linux: {} } });
  const before = readFileSync(join(bundle, 'config.json'));
  const create = [id, bytesField(2, bundle), numberField(77, 5)];
  assert.equal((await call('Create', ...create)).code, 0);
  assert.equal((await call('Start', id)).code, 0);
  assert.deepEqual(
    seen.map(({ method }) => method),
    ['Create', 'Start'],
  );
  assert.deepEqual(seen[0]?.payload, Buffer.concat(create));
  assert.deepEqual(readFileSync(join(bundle, 'config.json')), before);
  assert.deepEqual([asked, troubles], [[], []]);
});

test('an answer that nobody changes comes byte for byte', async (t) => {
  const odd = Buffer.from('7a0568656c6c6f', 'hex'); // a field that is not ours
  const { bundle, call } = await world(t, { answering: () => ({ payload: odd, code: 0 }) });
  assert.deepEqual((await call('Create', id, bytesField(2, bundle))).payload, odd);
});

test('a bundle without config.json is the stock shim’s to complain of', async (t) => {
  const { bundle, call, troubles } = await world(t, {
    answering: () => ({ code: 5, message: 'no config.json' }),
  });
  await rm(join(bundle, 'config.json'));
  const { code, message } = await call('Create', id, bytesField(2, bundle));
  assert.deepEqual([code, message], [5, 'no config.json']);
  assert.equal(troubles.length, 1);
});

test('an image that cannot be restored here is refused at Create, with every reason', async (t) => {
  const { bundle, call, seen, asked } = await world(t, { spec: gpuSpec, help: () => refusal });
  const { code, message } = await call(
    'Create',
    id,
    bytesField(2, bundle),
    bytesField(8, '/image'),
  );
  assert.deepEqual([code, message], [9, 'E_VRAM: no; E_NO_GPU: no']);
  assert.deepEqual([seen, asked], [[], [['preflight', 'move']]]);
});

test('a pre-flight that breaks stops nothing: the session looks again', async (t) => {
  const { bundle, call, troubles } = await world(t, {
    spec: gpuSpec,
    help: () => Promise.reject(new Error('broken')),
  });
  assert.equal((await call('Create', id, bytesField(2, bundle), bytesField(8, '/image'))).code, 0);
  assert.equal(troubles.length, 1);
});

test('the annotation makes a restore of a plain Create; containerd’s own image comes first', async (t) => {
  const annotations = { 'io.kfd-checkpoint.restore-from': '/kept/image' };
  const { bundle, call, seen } = await world(t, {
    spec: { annotations },
    answering: ({ method }) => (method === 'Start' ? { payload: numberField(1, 77) } : {}),
  });
  await call('Create', id, bytesField(2, bundle), bytesField(6, '/out'));
  assert.equal(field(seen[0]?.payload ?? id, 8), '/kept/image');
  assert.equal(field(seen[0]?.payload ?? id, 6), '/out');
  await call('Create', bytesField(1, 'two'), bytesField(2, bundle), bytesField(8, '/other'));
  assert.equal(field(seen[1]?.payload ?? id, 8), '/other');
});

test('the temporary image is removed after a good start, and only then; an image of the user never', async (t) => {
  let fails = true;
  const { folder, bundle, call } = await world(t, {
    answering: ({ method }) =>
      method === 'Start' && fails ? { code: 2, message: 'criu failed' } : {},
  });
  const temporary = join(folder, 'ctrd-checkpoint123');
  const own = [
    join(folder, 'image'),
    join(folder, 'ctrd-checkpoint-monday'),
    join(folder, 'ctrd-checkpoint'),
    join(folder, 'ctrd-checkpoint12-kept'),
    join(bundle, 'ctrd-checkpoint123'),
  ];
  for (const image of [temporary, ...own]) {
    await mkdir(image);
    await writeFile(join(image, 'inventory.img'), 'x');
  }
  const restore = async (image: string) => {
    await call('Create', id, bytesField(2, bundle), bytesField(8, image));
    await call('Start', id, bytesField(2, 'an exec'));
    return call('Start', id);
  };
  await restore(temporary);
  assert.ok(existsSync(join(temporary, 'inventory.img')), 'a failed start');
  fails = false;
  for (const image of own) await restore(image);
  await restore(temporary);
  for (let i = 0; i < 100 && existsSync(temporary); i += 1) await delay(10);
  assert.equal(existsSync(temporary), false);
  assert.deepEqual(
    own.filter((image) => !existsSync(image)),
    [],
  );
});

test('containerd unpacks into XDG_RUNTIME_DIR, else TMPDIR, else /tmp', () => {
  const both = { XDG_RUNTIME_DIR: '/run/user/0', TMPDIR: '/big/' };
  assert.equal(temporaryFolder(both), '/run/user/0');
  assert.equal(temporaryFolder({ ...both, XDG_RUNTIME_DIR: '' }), '/big/');
  assert.equal(temporaryFolder({}), '/tmp');
  assert.ok(isTemporaryImage('/big/ctrd-checkpoint9', '/big/'));
  assert.ok(!isTemporaryImage('/big/../other/ctrd-checkpoint9', '/big'));
});

test('a failed restore is told with what the helper finds, by the stock shim’s code', async (t) => {
  const { bundle, call, asked } = await world(t, {
    answering: ({ method }) => (method === 'Start' ? { code: 2, message: 'criu failed' } : {}),
    help: (args) =>
      encodeResponse({ code: 0, message: `${args[4]}; CRIU: why`, payload: Buffer.alloc(0) }),
  });
  await call('Create', id, bytesField(2, bundle), bytesField(8, '/image'));
  const { code, message } = await call('Start', id);
  assert.deepEqual([code, message], [2, 'criu failed; CRIU: why']);
  assert.deepEqual(
    asked.map((words) => words.slice(0, 3)),
    [['end-leftover'], ['explain', 'restore', bundle]],
  );
  // Restored once: a second Start is one like all.
  assert.equal((await call('Start', id)).message, 'criu failed');
});

test('a container that cannot be deleted is still known; one that is deleted is not', async (t) => {
  let code = 9;
  const { bundle, call, seen } = await world(t, {
    answering: ({ method }) =>
      method === 'Delete' ? { code, message: 'cannot delete a running process' } : {},
  });
  await call('Create', id, bytesField(2, bundle), bytesField(8, '/image'));
  assert.equal((await call('Delete', id)).message, 'cannot delete a running process');
  await call('Start', id);
  const asked = seen.length;
  assert.equal(seen.at(-1)?.timeoutNs, 0n, 'its Start is the one that restores');
  await call('Create', id, bytesField(2, bundle), bytesField(8, '/image'));
  code = 0;
  await call('Delete', id, bytesField(2, 'an exec'));
  await call('Delete', id);
  await call('Start', id);
  assert.ok(seen.length === asked + 4 && seen.at(-1)?.timeoutNs !== 0n);
});

test('what crun runs is neither saved nor restored, when it has a GPU', async (t) => {
  const { bundle, call, seen } = await world(t, { spec: gpuSpec });
  const options = (binary: string) => {
    const fields = [
      bytesField(1, 'containerd.runc.v1.Options'),
      bytesField(2, bytesField(6, binary)),
    ];
    return bytesField(10, Buffer.concat(fields));
  };
  const crun = options('/usr/bin/crun');
  assert.equal((await call('Create', id, bytesField(2, bundle), crun)).code, 0);
  const saved = await call('Checkpoint', id, bytesField(2, '/image'));
  const restored = await call('Create', id, bytesField(2, bundle), bytesField(8, '/image'), crun);
  for (const { code, message } of [saved, restored]) {
    assert.equal(code, 9);
    assert.match(message, /E_UNSUPPORTED_STATE: containerd cannot restore what crun runs/);
  }
  assert.deepEqual(
    seen.map(({ method }) => method),
    ['Create'],
  );
  await call('Create', bytesField(1, 'two'), bytesField(2, bundle), options('/opt/crun/runc'));
  assert.equal((await call('Checkpoint', bytesField(1, 'two'))).code, 0);

  await writeFile(join(bundle, 'config.json'), '{}');
  await call('Create', bytesField(1, 'three'), bytesField(2, bundle), crun);
  assert.equal((await call('Checkpoint', bytesField(1, 'three'))).code, 0, 'no GPU');
});

test('Shutdown is answered at once, whatever the stock shim says later', async (t) => {
  const { call, seen } = await world(t, { answering: () => new Promise(() => undefined) });
  const { code, payload } = await call('Shutdown', id, numberField(2, 1));
  assert.deepEqual([code, payload.length], [0, 0]);
  for (let i = 0; seen.length === 0 && i < 400; i += 1) await delay(10);
  assert.deepEqual(
    seen.map(({ method, payload: sent }) => [method, sent]),
    [['Shutdown', Buffer.concat([id, numberField(2, 1)])]],
  );
});

test('calls of other services are nobody’s business', async (t) => {
  const { client, seen } = await world(t);
  const payload = Buffer.from([0xff]);
  await client.call(
    { service: 'containerd.runtime.sandbox.v1.Sandbox', method: 'Create', payload },
    5_000,
  );
  assert.deepEqual(seen[0]?.payload, payload);
});

test('a request that is damaged inside is the stock shim’s to complain of, and the connection continues', async (t) => {
  const damaged = Buffer.from([0xff]);
  const { call, seen } = await world(t, {
    answering: ({ payload }) => (payload.equals(damaged) ? { code: 3, message: 'damaged' } : {}),
  });
  const methods = ['Create', 'Start', 'Checkpoint', 'State', 'Delete', 'Pids'];
  for (const method of methods) {
    const { code, message } = await call(method, damaged);
    assert.deepEqual([code, message], [3, 'damaged'], method);
  }
  assert.deepEqual(
    seen.map(({ method }) => method),
    methods,
  );
  assert.equal((await call('Pids', id)).code, 0);
});
