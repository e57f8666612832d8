/** What the shim makes of Create, and what it keeps of a container until its Delete. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, constants, existsSync, openSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { criuConfigAnnotation } from '../../shim/intercept/bundle-spec.js';
import { isTaskService, processOf } from '../../shim/intercept/task-fields.js';
import { withLinkedImage } from '../../src/criu/task-link.js';
import { bytesField, numberField } from '../../src/protobuf.js';
import { id, refusal, type World, world } from './intercept-world.js';
import { temporaryFolder } from './paths.js';
import { until } from './shim-host.js';

const gpu = { linux: { cgroupsPath: '/pods/one', devices: [{ path: '/dev/kfd' }] } };
const noGpu = { linux: { devices: [{ path: '/dev/null' }] } };

const crun = bytesField(
  10,
  Buffer.concat([
    bytesField(1, 'containerd.runc.v1.Options'),
    bytesField(2, bytesField(6, '/usr/bin/crun')),
  ]),
);

/** An image directory with these files. */
async function imageWith({ folder }: World, name: string, ...files: string[]): Promise<Buffer> {
  const image = join(folder, name);
  await mkdir(image);
  for (const file of files) await writeFile(join(image, file), '');
  return bytesField(8, image);
}

/** Whether the container's next Start restores: its deadline is not passed on. */
async function startRestores({ call, seen }: World): Promise<boolean> {
  await call('Start', id);
  return seen.at(-1)?.timeoutNs === 0n;
}

test('a container with a GPU gets the plugin; a restored one its cgroup; no other one anything', async (t) => {
  const libdir = '\nlibdir /var/lib/kfd-checkpoint/criu\n';
  for (const [spec, fields, config] of [
    [gpu, [], libdir],
    [gpu, [bytesField(8, '/image')], `${libdir}cgroup-root /pods/one\n`],
    [gpu, [crun], undefined],
    [noGpu, [], undefined],
    [noGpu, [bytesField(8, '/image')], undefined],
  ] as const) {
    const one = await world(t, { spec, hasPlugin: true });
    assert.equal((await one.call('Create', id, bytesField(2, one.bundle), ...fields)).code, 0);
    const path = join(one.bundle, 'kfd-criu.conf');
    const { annotations } = JSON.parse(readFileSync(join(one.bundle, 'config.json'), 'utf8'));
    assert.equal(annotations?.[criuConfigAnnotation], config && path);
    assert.equal(existsSync(path) ? readFileSync(path, 'utf8') : undefined, config);
    assert.deepEqual(one.troubles, []);
  }
});

test('a link for the container names its image, and what containerd names comes first', async (t) => {
  const one = await world(t, { spec: noGpu });
  const create = [bytesField(1, 'job'), bytesField(2, one.bundle)];
  const namespace = basename(one.folder);
  const image = join(one.folder, 'kept');
  await mkdir(image);
  const link = async () => {
    await withLinkedImage(
      { namespace, id: 'job' },
      image,
      async () => {
        await one.call('Create', ...create);
        await one.call('Create', ...create, bytesField(8, '/image'));
      },
      join(one.folder, 'run'),
    );
  };
  await link();
  await one.call('Create', ...create);
  assert.deepEqual(
    one.seen.map(({ payload }) => payload),
    [
      Buffer.concat([...create, bytesField(8, image)]),
      Buffer.concat([...create, bytesField(8, '/image')]),
      Buffer.concat(create),
    ],
  );
});

test('the pre-flight is for a GPU in the spec or in the image, and crun is refused for the same', async (t) => {
  for (const [spec, files, isOurs] of [
    [gpu, ['inventory.img'], true],
    [noGpu, ['inventory.img'], false],
    [noGpu, ['inventory.img', 'kfd-manifest.json'], true],
    [noGpu, ['amdgpu-pages-0-0000.img'], true],
  ] as const) {
    const one = await world(t, { spec });
    const image = await imageWith(one, 'image', ...files);
    const create = [id, bytesField(2, one.bundle), image];
    assert.equal((await one.call('Create', ...create)).code, 0);
    assert.deepEqual(one.asked, isOurs ? [['preflight', 'move']] : [], String(files));
    assert.deepEqual(one.seen[0]?.payload, Buffer.concat(create), 'as it was');
    const { code, message } = await one.call('Create', ...create, crun);
    assert.equal(code, isOurs ? 9 : 0, String(files));
    if (isOurs) assert.match(message, /what crun runs/);
    assert.equal(one.seen.length, isOurs ? 1 : 2);
  }
  // The image of another engine, and none at all, is runc's or crun's own affair.
  const { bundle, call, asked } = await world(t, { spec: noGpu, help: () => refusal });
  for (const image of ['/not/there', '']) {
    assert.equal((await call('Create', id, bytesField(2, bundle), bytesField(8, image))).code, 0);
  }
  await rm(join(bundle, 'config.json'));
  assert.equal((await call('Create', id, bytesField(2, bundle), bytesField(8, '/image'))).code, 0);
  assert.deepEqual(asked, []);
});

test('a Start restores when Create had an image and succeeded, and once', async (t) => {
  let code = 0;
  const one = await world(t, { spec: noGpu, answering: () => ({ code }) });
  const create = [id, bytesField(2, one.bundle)];
  const image = bytesField(8, '/image');
  await one.call('Create', ...create);
  assert.equal(await startRestores(one), false, 'no image');
  code = 2;
  await one.call('Create', ...create, image);
  code = 0;
  assert.equal(await startRestores(one), false, 'no container');
  await one.call('Create', ...create, image);
  await one.call('Start', id, bytesField(2, 'an exec'));
  assert.notEqual(one.seen.at(-1)?.timeoutNs, 0n, 'a process in the container');
  assert.equal(await startRestores(one), true);
  assert.equal(await startRestores(one), false);
  await one.call('Start', bytesField(1, 'another'));
  assert.notEqual(one.seen.at(-1)?.timeoutNs, 0n);
});

test('the pipes of a caller that has gone have a reader until a restore is answered', async (t) => {
  const folder = await temporaryFolder(t);
  const pipe = join(folder, 'stdout');
  execFileSync('mkfifo', [pipe]);
  const file = join(folder, 'stderr');
  await writeFile(file, '');
  /** As the stock shim does, but without waiting. */
  const hasReader = () => {
    try {
      closeSync(openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK));
      return true;
    } catch {
      return false;
    }
  };
  const found: [string, boolean][] = [];
  const one = await world(t, {
    spec: noGpu,
    answering: ({ method }) => {
      found.push([method, hasReader()]);
      return {};
    },
  });
  const create = [id, bytesField(2, one.bundle), bytesField(8, '/image')];
  for (const stderr of [file, 'binary:///bin/logger', '']) {
    await one.call('Create', ...create, bytesField(6, pipe), bytesField(7, stderr));
    await one.call('Start', id);
    assert.equal(hasReader(), false);
  }
  const expected = [1, 2, 3].flatMap(() => [['Create', false] as const, ['Start', true] as const]);
  assert.deepEqual(found, expected);
  assert.deepEqual(one.troubles, []);
});

test('an image that an annotation names is the user’s, whatever its name', async (t) => {
  const one = await world(t);
  const annotated = join(one.folder, 'ctrd-checkpoint5');
  await mkdir(annotated);
  const annotations = { 'io.kfd-checkpoint.restore-from': annotated };
  await writeFile(join(one.bundle, 'config.json'), JSON.stringify({ annotations }));
  await one.call('Create', id, bytesField(2, one.bundle));
  assert.equal(await startRestores(one), true);
  // One that has gone before its removal is a trouble, and no failure.
  const image = await imageWith(one, 'ctrd-checkpoint6', 'inventory.img');
  for (const isThere of [true, false]) {
    await one.call('Create', id, bytesField(2, one.bundle), image);
    assert.equal((await one.call('Start', id)).code, 0);
    await until('removal', () => !existsSync(join(one.folder, 'ctrd-checkpoint6')));
    if (isThere) assert.deepEqual(one.troubles, []);
  }
  await until('a trouble', () => one.troubles.length === 1);
  assert.match(String(one.troubles[0]), /ENOENT/);
  assert.ok(existsSync(annotated));
});

test('Delete forgets a container; not for a process in it, for one that came later, or when refused', async (t) => {
  let code = 0;
  let release: (() => void) | undefined;
  const one = await world(t, {
    answering: async ({ method }) => {
      if (method !== 'Delete') return {};
      if (release !== undefined) await new Promise<void>((resolve) => (release = resolve));
      return { code };
    },
  });
  const create = [id, bytesField(2, one.bundle), bytesField(8, '/image')];
  for (const [answer, exec, restores] of [
    [0, '', false],
    [5, '', false],
    [9, '', true],
    [0, 'an exec', true],
  ] as const) {
    await one.call('Create', ...create);
    code = answer;
    await one.call('Delete', id, bytesField(2, exec));
    assert.equal(await startRestores(one), restores, `${answer} ${exec}`);
  }
  assert.equal((await one.call('Delete', bytesField(1, 'another'))).code, 0);
  code = 0;
  const waits = () => undefined;
  release = waits;
  await one.call('Create', ...create);
  const deleted = one.call('Delete', id);
  await until('Delete', () => release !== waits);
  await one.call('Create', ...create);
  release();
  await deleted;
  assert.equal(await startRestores(one), true);
});

test('fields of another type or number say nothing, and both versions of the service are known', () => {
  const odd = [numberField(1, 5), numberField(2, 6), bytesField(99, 'x')];
  const one = Buffer.concat([...odd, id, bytesField(2, 'exec'), ...odd]);
  assert.deepEqual(processOf(one), { id: 'one', execId: 'exec' });
  assert.deepEqual(processOf(Buffer.concat(odd)), { id: '', execId: '' });
  const services = [
    'containerd.task.v2.Task',
    'containerd.task.v3.Task',
    'containerd.task.v1.Task',
  ];
  assert.deepEqual(services.map(isTaskService), [true, true, false]);
});

test('Shutdown of another service is that service’s', async (t) => {
  const { client } = await world(t, {
    answering: () => ({ payload: Buffer.from('of the stock') }),
  });
  const service = 'containerd.runtime.sandbox.v1.Sandbox';
  const { payload } = await client.call({ service, method: 'Shutdown', payload: id }, 5_000);
  assert.equal(payload.toString(), 'of the stock');
});
