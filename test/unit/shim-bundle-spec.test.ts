import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  criuConfigAnnotation,
  readBundleSpec,
  useOurPlugin,
} from '../../shim/intercept/bundle-spec.js';
import { cgroupRoot } from '../../shim/intercept/cgroup-root.js';
import { createRequest } from '../../shim/intercept/task-fields.js';
import { bytesField, numberField } from '../../src/protobuf.js';
import { temporaryFolder } from './paths.js';

const gpuSpec = {
  ociVersion: '1.2.0',
  process: { rlimits: [{ type: 'RLIMIT_CORE', hard: 1 }] },
  annotations: { 'some.one': 'else' },
  linux: {
    devices: [{ path: '/dev/null' }, { path: '/dev/kfd', type: 'c', major: 234, minor: 0 }],
  },
};
test('CRIU is told of our plugin beside what the host tells it; an annotation that is there stays', async (t) => {
  const bundle = await temporaryFolder(t);
  const path = join(bundle, 'config.json');
  const text = JSON.stringify(gpuSpec).replace('"hard":1', '"hard":18446744073709551615');
  const places = { plugin: path, hostConfig: join(bundle, 'runc.conf') };
  const use = (cgroup?: string, plugin = path) =>
    useOurPlugin(bundle, readBundleSpec(bundle), cgroup, { ...places, plugin });
  await writeFile(path, text);
  await use(undefined, join(bundle, 'none'));
  assert.equal(readFileSync(path, 'utf8'), text, 'there is no plugin');

  await writeFile(places.hostConfig, 'tcp-established');
  await use('/pods/one');
  const { annotations, hasGpu } = readBundleSpec(bundle);
  const config = String(annotations[criuConfigAnnotation]);
  assert.deepEqual([hasGpu, annotations['some.one']], [true, 'else']);
  assert.match(readFileSync(path, 'utf8'), /"hard":18446744073709551615/);
  assert.equal(
    readFileSync(config, 'utf8'),
    'tcp-established\nlibdir /var/lib/kfd-checkpoint/criu\ncgroup-root /pods/one\n',
  );

  for (const theirs of ['/their.conf', '']) {
    await writeFile(
      path,
      JSON.stringify({ ...gpuSpec, annotations: { [criuConfigAnnotation]: theirs } }),
    );
    const before = readFileSync(path, 'utf8');
    await use();
    assert.equal(readFileSync(path, 'utf8'), before);
  }
});

test('without a configuration of the host the plugin is all that CRIU is told', async (t) => {
  const bundle = await temporaryFolder(t);
  const path = join(bundle, 'config.json');
  await writeFile(path, JSON.stringify(gpuSpec));
  const places = { plugin: path, hostConfig: join(bundle, 'none') };
  await useOurPlugin(bundle, readBundleSpec(bundle), undefined, places);
  const config = String(readBundleSpec(bundle).annotations[criuConfigAnnotation]);
  assert.equal(readFileSync(config, 'utf8'), '\nlibdir /var/lib/kfd-checkpoint/criu\n');
});

test('a spec is read as far as it is one', async (t) => {
  const bundle = await temporaryFolder(t);
  for (const [text, annotations, cgroupsPath] of [
    ['null', {}, undefined],
    ['[]', {}, undefined],
    ['7', {}, undefined],
    ['{"annotations":["a"],"linux":[]}', {}, undefined],
    ['{"annotations":null,"linux":null}', {}, undefined],
    ['{"annotations":{"a":"b"},"linux":{"cgroupsPath":"/one"}}', { a: 'b' }, '/one'],
  ] as const) {
    await writeFile(join(bundle, 'config.json'), text);
    const spec = readBundleSpec(bundle);
    assert.deepEqual(
      [spec.text, spec.annotations, spec.cgroupsPath, spec.hasGpu],
      [text, annotations, cgroupsPath, false],
    );
  }
  await writeFile(join(bundle, 'config.json'), '{');
  assert.throws(() => readBundleSpec(bundle), SyntaxError);
});

test('the OCI runtime is what runc’s options name', () => {
  const create = (type: string, options: Buffer) => {
    const any = Buffer.concat([bytesField(1, type), bytesField(2, options)]);
    return createRequest(bytesField(10, any)).binary;
  };
  const named = Buffer.concat([numberField(9, 1), bytesField(6, '/usr/bin/crun')]);
  assert.equal(create('containerd.runc.v1.Options', named), '/usr/bin/crun');
  assert.equal(create('containerd.runc.v1.Options', numberField(9, 1)), '');
  assert.equal(create('runtimeoptions.v1.Options', named), '');
  assert.equal(createRequest(bytesField(1, 'one')).binary, '');
  assert.throws(() => create('containerd.runc.v1.Options', Buffer.from([0xff])), /protobuf/);
});

test('a GPU is known by its device, wherever else its name is', async (t) => {
  const bundle = await temporaryFolder(t);
  for (const [devices, expected] of [
    [[{ path: '/dev/kfd' }], true],
    [[{ path: '/dev/dri/renderD129' }], true],
    [[{ path: '/dev/dri/card0' }], false],
    [[null, 5, { path: 7 }], false],
    ['/dev/kfd', false],
  ] as const) {
    const spec = { process: { args: ['/dev/kfd'] }, linux: { devices } };
    await writeFile(join(bundle, 'config.json'), JSON.stringify(spec));
    assert.equal(readBundleSpec(bundle).hasGpu, expected);
  }
});

test('a restored container belongs into its own cgroup, as runc names it', () => {
  for (const [path, root] of [
    ['/default/two', '/default/two'],
    [undefined, '/two'],
    ['', '/two'],
    [
      'kubepods-burstable-pod1_2.slice:cri-containerd:two',
      '/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-two.scope',
    ],
    ['system.slice::two', '/system.slice/two.scope'],
    ['-.slice:docker:two', '/docker-two.scope'],
    ['machine.slice::inner.slice', '/machine.slice/inner.slice'],
    ['relative', undefined],
    ['/a/../b', undefined],
    ['/a\nlibdir /b', undefined],
    [5, undefined],
  ] as const) {
    assert.equal(cgroupRoot(path, 'two'), root, String(path));
  }
});
