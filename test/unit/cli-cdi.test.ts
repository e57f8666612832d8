import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readContents } from '../../src/archive/contents.js';
import { archive, checkpointOfHere } from './archive-builder.js';
import { amdJson } from './cdi-specs.js';
import { cli, errorIn } from './cli-context.js';
import { temporaryFolder } from './paths.js';
import { options, sample } from './restorable.js';
import { bentHost } from './sysfs-tree.js';

const specified = [
  { card: 0, render: 128 },
  { card: 1, render: 129 },
];
const hostWithCdi = (t: TestContext, gpus = specified, more = {}) =>
  bentHost(t, 'two-gpus', { 'etc/cdi/amd.json': amdJson(gpus), ...more });

/** A checkpoint of a container with one GPU, the first, which its annotation calls amd.com/gpu=0. */
function ofOneGpu(config: Readonly<Record<string, unknown>> = {}) {
  const files = checkpointOfHere((manifest) => {
    for (const process of manifest.processes) process.gpus = [0];
    manifest.buffers = manifest.buffers.filter(({ gpu }) => gpu === 0);
    manifest.files = manifest.files.slice(0, 2);
  });
  delete files['checkpoint/amdgpu-pages-0-0001.img'];
  const gpus = JSON.stringify([{ gpu_id: 51966, render_minor: 128, cdi: 'amd.com/gpu=0' }]);
  const annotations = { 'io.kfd-checkpoint.gpus': gpus };
  return {
    ...files,
    'config.dump': JSON.stringify({ id: 'f00d', name: 'job', runtime: 'crun', ...config }),
    'spec.dump': JSON.stringify({ annotations, linux: { devices: [] } }),
  };
}

async function check(path: string, root: string, ...more: string[]) {
  const { code, stdout, stderr } = await cli([
    'check',
    path,
    '--format',
    'json',
    '--root',
    root,
    ...more,
  ]);
  if (stdout === '') return { code, error: errorIn(stderr), minors: [], rewriting: undefined };
  const report = JSON.parse(stdout) as {
    needs_rewriting: boolean;
    gpus: { present: { render_minor: number; cdi_name?: string } }[];
    reasons: { code: string; message: string }[];
    command: string[] | string;
  };
  return {
    code,
    error: undefined,
    minors: report.gpus.map(({ present }) => present.render_minor),
    names: report.gpus.map(({ present }) => present.cdi_name),
    rewriting: report.needs_rewriting,
    reasons: report.reasons,
    command: [report.command].flat().join(' '),
  };
}

test('--gpus takes a CDI name, a render node, a PCI address or an id, and only GPUs that it names', async (t) => {
  const path = await archive(t, ofOneGpu());
  const root = await hostWithCdi(t);
  const usual = await check(path, root);
  assert.deepEqual([usual.minors, usual.rewriting, usual.names], [[128], false, ['amd.com/gpu=0']]);
  for (const name of ['amd.com/gpu=1', 'renderD129', '0000:43:00.0']) {
    const { code, minors, rewriting, command } = await check(path, root, '--gpus', name);
    assert.deepEqual([code, minors, rewriting], [0, [129], true], name);
    assert.equal(command, `kfd-checkpoint restore --gpus ${name} ${path}`);
  }
  for (const names of ['amd.com/gpu=all', 'amd.com/gpu=1,renderD128']) {
    assert.deepEqual((await check(path, root, '--gpus', names)).minors, [128], names);
  }
  const text = (await cli(['check', path, '--root', root])).stdout;
  assert.match(text, /^GPU +.* +FREE VRAM +CDI NAME$/m);
  assert.match(text, /^0 .* amd\.com\/gpu=0$/m);
});

test('--gpus goes before the gpu_map of the configuration', async (t) => {
  const map = { 'etc/kfd-checkpoint/config.json': '{"gpu_map":{"renderD128":"renderD128"}}' };
  const root = await hostWithCdi(t, specified, map);
  const path = await archive(t, ofOneGpu());
  assert.deepEqual((await check(path, root, '--gpus', 'amd.com/gpu=1')).minors, [129]);
});

test('too few GPUs, unknown ones and words that are no names are refused', async (t) => {
  const two = await archive(t, checkpointOfHere());
  const root = await hostWithCdi(t);
  const few = await check(two, root, '--gpus', 'amd.com/gpu=1');
  assert.equal(few.code, 3);
  assert.match(
    few.reasons?.[0]?.message ?? '',
    /^gpu \d \(renderD12\d\): no GPU is left for it, of 1 that --gpus names; it was a gfx90a$/,
  );
  const refused = async (...more: string[]) => {
    const { code, error } = await check(two, root, ...more);
    return `${code} ${error?.code} ${error?.message}`;
  };
  assert.equal(
    await refused('--gpus', 'amd.com/gpu=7'),
    '3 E_NO_GPU --gpus: no CDI specification of this host has amd.com/gpu=7',
  );
  assert.equal(
    await refused('--gpus', 'renderD140'),
    '3 E_NO_GPU --gpus: this host has no renderD140',
  );
  assert.match(await refused('--gpus', 'gpu0'), /^2 E_USAGE --gpus: "gpu0" is not NAME/);
  assert.match(await refused('--gpus', ''), /^2 E_USAGE /);
  const both = ['--gpus', 'renderD128', '--gpu-map', 'renderD128=renderD129'];
  assert.match(await refused(...both), /^2 E_USAGE --gpu-map and --gpus exclude each other/);
  assert.equal((await cli(['check', '--root', root, '--gpus', 'renderD128'])).code, 2);
});

test('--gpu-map takes CDI names: of the source on the left, of this host on the right', async (t) => {
  const path = await archive(t, ofOneGpu());
  const root = await hostWithCdi(t);
  for (const map of [
    'amd.com/gpu=0=amd.com/gpu=1',
    'renderD128=amd.com/gpu=1',
    'amd.com/gpu=0=0000:43:00.0',
  ]) {
    assert.deepEqual((await check(path, root, '--gpu-map', map)).minors, [129], map);
  }
  const refused = async (map: string) => (await check(path, root, '--gpu-map', map)).error?.message;
  assert.equal(
    await refused('amd.com/gpu=3=renderD129'),
    '--gpu-map: the checkpoint does not say which GPU was amd.com/gpu=3',
  );
  assert.equal(await refused('renderD128=amd.com/gpu=all'), '--gpu-map: amd.com/gpu=all is 2 GPUs');
  assert.match((await refused('amd.com/gpu=0')) ?? '', /is not FROM=TO/);
  const odd = { ...ofOneGpu(), 'spec.dump': '{"annotations":{"io.kfd-checkpoint.gpus":"[1]"}}' };
  const other = await check(await archive(t, odd), root, '--gpu-map', 'amd.com/gpu=0=renderD129');
  assert.match(other.error?.message ?? '', /does not say which GPU/);
});

test("podman's later starts get the GPU that the container has now", async (t) => {
  const here = await hostWithCdi(t);
  const named = await archive(t, ofOneGpu({ cdiDevices: ['amd.com/gpu=0'] }));
  assert.equal((await check(named, here)).rewriting, false);
  const swapped = await hostWithCdi(t, specified.toReversed());
  assert.equal((await check(named, swapped)).rewriting, true);
  let bytes: Buffer | undefined;
  const files = {
    ...sample(),
    'config.dump': '{"id":"f00d","name":"job","runtime":"crun","cdiDevices":["amd.com/gpu=0"]}',
  };
  const path = await archive(t, files);
  const { code, stderr } = await cli(['restore', '--root', swapped, path], {
    runThrough: async (_, __, descriptor) => {
      if (descriptor !== undefined) bytes = readFileSync(`/proc/self/fd/${descriptor}`);
      return 0;
    },
  });
  assert.equal(code, 0, stderr);
  const copy = join(await temporaryFolder(t), 'copy.tar');
  await writeFile(copy, bytes ?? '');
  const { documents } = await readContents(copy, options);
  const { cdiDevices } = JSON.parse(documents.config ?? '') as { cdiDevices: string[] };
  assert.deepEqual(cdiDevices.toSorted(), ['amd.com/gpu=0', 'amd.com/gpu=1']);
});

test('check says which GPU has which name, and warns of a specification that is too old', async (t) => {
  const findings = async (root: string) => {
    const { stdout } = await cli(['check', '--root', root, '--format', 'json']);
    const report = JSON.parse(stdout) as { findings: { name: string; message: string }[] };
    return report.findings
      .filter(({ name }) => /^(gpu \d|cdi)$/.test(name))
      .map(({ name, message }) => `${name}: ${message}`);
  };
  const [first, second, ...others] = await findings(await hostWithCdi(t));
  assert.match(first ?? '', /^gpu 0: gfx90a at 0000:03:00\.0, renderD128, amd\.com\/gpu=0, /);
  assert.match(second ?? '', /^gpu 1: gfx90a at 0000:43:00\.0, renderD129, amd\.com\/gpu=1, /);
  assert.deepEqual(others, []);
  const card = { 'sys/devices/pci0000:00/0000:43:00.0/drm/card0/dev': '226:0\n' };
  const old = [
    { card: 0, render: 128 },
    { card: 1, render: 140 },
  ];
  assert.deepEqual((await findings(await hostWithCdi(t, old, card))).slice(2), [
    'cdi: amd.com/gpu=0 of /etc/cdi/amd.json: its card node is that of the GPU at 0000:43:00.0',
    'cdi: amd.com/gpu=1 of /etc/cdi/amd.json: is no GPU of this host',
    'cdi: amd.com/gpu=all of /etc/cdi/amd.json: its card node is that of the GPU at 0000:43:00.0',
  ]);
});
