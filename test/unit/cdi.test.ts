import assert from 'node:assert/strict';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { cdiNames, hasOtherNames } from '../../src/archive/cdi-names.js';
import { rewriteConfig, rewriteSpec } from '../../src/archive/device-rules.js';
import type { Host } from '../../src/gpu/host.js';
import type { GpuPair } from '../../src/gpu/pair.js';
import { isCdiName, readCdi } from '../../src/runtime/cdi.js';
import { cdiNameOf, foreignCards, gpusOfCdi, gpusOfName } from '../../src/runtime/cdi-gpus.js';
import { amdCdi, amdJson } from './cdi-specs.js';
import { documentChanges, noCdi } from './device-moves.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';
import { temporaryFolder } from './paths.js';

async function hostFiles(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const root = await temporaryFolder(t);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    await writeFile(join(root, name), text);
  }
  return root;
}

const withCards = (host: Host, ...minors: number[]): Host => ({
  ...host,
  gpus: host.gpus.map((gpu, i) => ({ ...gpu, cardDevice: { major: 226, minor: minors[i] ?? i } })),
});
const four = withCards(
  hostWith(...[128, 129, 130, 131].map((render_minor) => ({ render_minor }))),
  0,
  1,
  2,
  3,
);
const specified = [0, 1, 2, 3].map((card) => ({ card, render: 128 + card }));
const pairs = (...ordinals: number[]): GpuPair[] =>
  ordinals.map((ordinal) => ({
    recorded: sampleManifest().gpus[0] as GpuPair['recorded'],
    present: four.gpus[ordinal] as GpuPair['present'],
  }));

test('what amd-ctk writes is read, and its devices are the GPUs with their render nodes', async (t) => {
  const root = await hostFiles(t, { 'etc/cdi/amd.json': amdJson(specified) });
  const cdi = await readCdi(root);
  assert.deepEqual(cdi.problems, []);
  assert.deepEqual(
    [...cdi.devices.values()].map((device) => [
      device.name,
      gpusOfCdi(device, four).map(({ record }) => record.render_minor),
    ]),
    [
      ['amd.com/gpu=0', [128]],
      ['amd.com/gpu=1', [129]],
      ['amd.com/gpu=2', [130]],
      ['amd.com/gpu=3', [131]],
      ['amd.com/gpu=all', [128, 129, 130, 131]],
    ],
  );
  const [, second] = four.gpus;
  assert.ok(second);
  assert.equal(cdiNameOf(second, cdi, four), 'amd.com/gpu=1');
  assert.deepEqual(gpusOfName('amd.com/gpu=1', cdi, four, '--gpus'), [second]);
  assert.deepEqual(await readCdi(join(root, 'nowhere')), { devices: new Map(), problems: [] });
});

test('a specification in YAML is read as one in JSON', async (t) => {
  const lines = [
    '# as drivers of DRA write it',
    'cdiVersion: 0.6.0',
    'kind: amd.com/gpu',
    'devices:',
  ];
  for (const [name, minor] of [
    ['claim-1', 129],
    ['"0"', 128],
  ]) {
    lines.push(`- name: ${name}`, '  containerEdits:', '    deviceNodes:');
    lines.push(
      '    - path: /dev/kfd',
      `    - {path: /dev/dri/renderD${minor}, major: 226, minor: ${minor}}`,
    );
  }
  const root = await hostFiles(t, { 'var/run/cdi/amd.yaml': lines.join('\n') });
  const { devices, problems } = await readCdi(root);
  assert.deepEqual(problems, []);
  const found = [...devices.values()].map((device) => [
    device.name,
    gpusOfCdi(device, four).map(({ record }) => record.render_minor),
  ]);
  assert.deepEqual(found, [
    ['amd.com/gpu=claim-1', [129]],
    ['amd.com/gpu=0', [128]],
  ]);
});

test('a later folder has the last word, two files of one folder none', async (t) => {
  const root = await hostFiles(t, {
    'etc/cdi/amd.json': amdJson([{ card: 0, render: 128 }]),
    'var/run/cdi/amd.json': amdJson([{ card: 1, render: 129 }]),
  });
  const replaced = await readCdi(root);
  assert.equal(replaced.devices.get('amd.com/gpu=0')?.file, '/var/run/cdi/amd.json');
  await writeFile(join(root, 'var/run/cdi/b.json'), amdJson([{ card: 1, render: 129 }]));
  const twice = await readCdi(root);
  assert.equal(twice.devices.size, 0);
  assert.ok(twice.problems.includes('/var/run/cdi: two files have amd.com/gpu=0'));
});

test('a file that is no specification takes nothing from the others', async (t) => {
  const device = (name: unknown, nodes: unknown) =>
    JSON.stringify({
      kind: 'amd.com/gpu',
      devices: [{ name, containerEdits: { deviceNodes: nodes } }],
    });
  // Each line has the one before it nine times: yaml expands none of them.
  const bombs = 'bcdefghijk'.split('').map((key, i) => {
    const alias = `*${'abcdefghijk'[i]}`;
    return `${key}: &${key} [${Array(9).fill(alias).join(', ')}]`;
  });
  const bad = {
    'a.json': '{',
    'b.json': '[]',
    'c.json': device('../0', []),
    'd.json': device('0', [{ path: 'dev/kfd' }]),
    'e.json': device('0', [{ path: '/dev/kfd', minor: -1 }]),
    'f.json': device('0', [{ path: '/dev/k\0fd' }]),
    'g.json': JSON.stringify({ kind: 'amd.com/gpu/x', devices: [] }),
    'h.json': JSON.stringify({ kind: 'amd.com/gpu', devices: Array(5000).fill({}) }),
    'i.json': ' '.repeat(2 << 20),
    'j.yaml': 'kind: amd.com/gpu',
    'm.yaml': '- [',
    'n.yml': ['a: &a [x, x]', ...bombs].join('\n'),
  };
  const files = Object.entries(bad).map(([name, text]) => [`etc/cdi/${name}`, text]);
  const good = [['etc/cdi/z.json', amdJson(specified)]];
  const root = await hostFiles(t, Object.fromEntries([...files, ...good]));
  await symlink('/nowhere', join(root, 'etc/cdi/k.json'));
  await mkdir(join(root, 'etc/cdi/l.json'));
  const { devices, problems } = await readCdi(root);
  assert.equal(devices.size, 5);
  const names = problems.map((problem) => problem.split(':')[0]);
  const expected = [...Object.keys(bad), 'k.json', 'l.json'].map((name) => `/etc/cdi/${name}`);
  assert.deepEqual(names.toSorted(), expected.toSorted());
});

test('names are full names', () => {
  for (const name of ['amd.com/gpu=0', 'amd.com/gpu=all', 'a.b/c_d=0000:03:00.0']) {
    assert.ok(isCdiName(name), name);
  }
  const wrong = ['amd.com/gpu', 'gpu=0', '/gpu=0', 'amd.com/gpu=', 'amd.com/g/pu=0', 'a/b=c=d', ''];
  for (const name of wrong) assert.equal(isCdiName(name), false, name);
});

test('numbers decide, and a name alone means the node that has it', () => {
  const old = { name: 'amd.com/gpu=0', file: '/etc/cdi/amd.json' };
  const node = (path: string, numbers = {}) => ({ ...old, nodes: [{ path, ...numbers }] });
  const minors = (device: Parameters<typeof gpusOfCdi>[0]) =>
    gpusOfCdi(device, four).map(({ record }) => record.render_minor);
  assert.deepEqual(minors(node('/dev/dri/renderD128', { major: 226, minor: 130 })), [130]);
  assert.deepEqual(minors(node('/dev/dri/renderD128', { major: 240, minor: 128 })), []);
  assert.deepEqual(minors(node('/dev/dri/renderD128')), [128]);
  assert.deepEqual(minors(node('/dev/nvidia0')), []);
});

test('a specification that is older than the numbers of the GPUs names none of them', () => {
  const swapped = withCards(four, 1, 0, 2, 3);
  const cdi = amdCdi(specified);
  const [first] = swapped.gpus;
  const device = cdi.devices.get('amd.com/gpu=0');
  assert.ok(first && device);
  assert.equal(cdiNameOf(first, cdi, swapped), undefined);
  assert.deepEqual(foreignCards(device, [first], swapped), [swapped.gpus[1]]);
  const gone = {
    message: /^--gpus: amd\.com\/gpu=0 of .* is no GPU of this host$/,
    code: 'E_NO_GPU',
  };
  assert.throws(() => gpusOfName('amd.com/gpu=0', cdi, hostWith({}), '--gpus'), gone);
  const unknown = { message: /no CDI specification of this host has amd\.com\/gpu=7$/ };
  assert.throws(() => gpusOfName('amd.com/gpu=7', cdi, four, '--gpus'), unknown);
});

test('names in the documents become those of the GPUs that the container has now', () => {
  const cdi = amdCdi(specified);
  const { followed, followedAnnotations } = cdiNames(pairs(2), cdi, four);
  const nic = 'vendor.com/nic=eth0';
  assert.deepEqual(followed(['amd.com/gpu=0', nic]), [nic, 'amd.com/gpu=2']);
  assert.deepEqual(followed(['amd.com/gpu=all']), ['amd.com/gpu=2']);
  for (const same of [['amd.com/gpu=2', nic], [nic], []]) assert.equal(followed(same), same);
  assert.equal(followed(null), null);
  const two = cdiNames(pairs(3, 1), cdi, four);
  assert.deepEqual(two.followed(['amd.com/gpu=0', 'amd.com/gpu=1']), [
    'amd.com/gpu=3',
    'amd.com/gpu=1',
  ]);
  const right = ['amd.com/gpu=1', 'amd.com/gpu=3'];
  assert.equal(two.followed(right), right);
  const all = ['amd.com/gpu=all'];
  assert.equal(cdiNames(pairs(0, 1, 2, 3), cdi, four).followed(all), all);
  // Where a GPU has no name, a later start takes the nodes of the spec.
  assert.deepEqual(cdiNames(pairs(2), noCdi, four).followed(['amd.com/gpu=0', nic]), [nic]);
  assert.deepEqual(
    followedAnnotations({
      'cdi.k8s.io/a': `amd.com/gpu=0,${nic}`,
      'cdi.k8s.io/b': 'amd.com/gpu=1',
      other: 'amd.com/gpu=0',
    }),
    { 'cdi.k8s.io/a': `${nic},amd.com/gpu=2`, other: 'amd.com/gpu=0' },
  );
  const kept = { 'cdi.k8s.io/a': 'amd.com/gpu=2', 'cdi.k8s.io/b': nic };
  assert.equal(followedAnnotations(kept), kept);
});

test('config.dump and spec.dump follow, and only what has to makes a copy', () => {
  const names = cdiNames(pairs(2), amdCdi(specified), four);
  const spec =
    '{"annotations":{"cdi.k8s.io/x":"amd.com/gpu=0","a":"b"},"big":18446744073709551615}';
  const config = `{"cdiDevices":["amd.com/gpu=0"],"spec":${spec}}`;
  const changes = { ...documentChanges([]), cdi: names };
  const newSpec = spec.replace('gpu=0', 'gpu=2');
  assert.equal(rewriteSpec(spec, changes), newSpec);
  const newConfig = `{"cdiDevices":["amd.com/gpu=2"],"spec":${newSpec}}`;
  assert.equal(rewriteConfig(config, changes), newConfig);
  assert.equal(hasOtherNames(names, { config, spec: newSpec }), true);
  assert.equal(hasOtherNames(names, { config: newConfig, spec }), true);
  for (const plain of [{ config: newConfig, spec: newSpec }, { config: '{', spec: '[]' }, {}]) {
    assert.equal(hasOtherNames(names, plain), false);
  }
  for (const bad of ['{"cdiDevices":[1]}', '{"cdiDevices":{}}']) {
    assert.throws(() => rewriteConfig(bad, changes), { code: 'E_IMAGE_CORRUPT' });
  }
});
