/** `kfd-ci save` and `kfd-ci migrate`: what is run, what is kept, and the verdict. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { CiWorld } from './ci-programs.js';
import { cli } from './cli-context.js';

const words = ['--name', 'job', '--', 'worker', '--serve'];

test('save: an image is annotated and pushed, and the container goes', async (t) => {
  const world = (await CiWorld.make(t)).put('ready').put('annotate.out', '{"changed": true}\n');
  const image = 'registry.example/ci/worker:warm';
  const summary = world.summary(['save', image, '--ready', 'true', '--runtime', 'runc', ...words]);
  assert.deepEqual([summary.status, summary.reason, summary.container], [0, 'saved', 'job']);
  assert.deepEqual(summary.report, { changed: true });
  assert.deepEqual(world.commands(), [
    'kfd-checkpoint check --format json',
    'podman --runtime runc run --detach --name job worker --serve',
    `podman --runtime runc container checkpoint --create-image ${image} job`,
    `kfd-checkpoint annotate --format json containers-storage:${image}`,
    `podman --runtime runc push --quiet ${image}`,
    'podman rm --force --time 0 job',
  ]);
  assert.deepEqual(readdirSync(join(world.folder, 'tmp')), []);
});

test('save: a layout takes the place of the earlier one, and its image is not kept twice', async (t) => {
  const world = await CiWorld.make(t);
  const dir = join(world.folder, 'warm');
  await mkdir(dir);
  await writeFile(join(dir, 'oci-layout'), 'earlier');
  assert.equal(world.summary(['save', `oci:${dir}`, ...words]).status, 0);
  assert.equal(readFileSync(join(dir, 'oci-layout'), 'utf8'), '{}\n');
  assert.equal(statSync(dir).mode & 0o777, 0o700, 'memory is in it');
  assert.ok(!existsSync(`${dir}.old`) && !existsSync(`${dir}.new`));
  const [, image] = /--create-image (localhost\/kfd-ci:\d+) /.exec(world.read('log')) ?? [];
  assert.deepEqual(world.commands().slice(-3), [
    `podman save --quiet --format oci-dir --uncompressed --output ${dir}.new ${image}`,
    'podman rm --force --time 0 job',
    `podman rmi ${image}`,
  ]);
  world.put('fail-save', 'Error: no space left on device\n');
  const failed = world.summary(['save', `oci:${dir}`, ...words]);
  assert.deepEqual([failed.status, failed.reason], [1, 'publish-failed']);
  assert.equal(readFileSync(join(dir, 'oci-layout'), 'utf8'), '{}\n', 'the earlier one stays');
  assert.match(world.commands().at(-1) ?? '', /^podman rmi localhost\/kfd-ci:/);
});

test('save: what one that failed or was killed has begun is not in the way of the next', async (t) => {
  for (const [image, reason, word] of [
    ['oci:warm', 'publish-failed', 'save'],
    ['./warm', 'checkpoint-failed', 'checkpoint'],
  ] as const) {
    const world = (await CiWorld.make(t)).put(`fail-${word}`, 'Error: no space left on device\n');
    assert.equal(world.summary(['save', image, ...words]).reason, reason);
    assert.ok(!world.has('warm.new'), image);
    await rm(join(world.folder, `fail-${word}`));
    assert.equal(world.summary(['save', image, ...words]).status, 0);
    assert.ok(world.has('warm') && !world.has('warm.new'), image);
  }
  for (const begun of ['warm.new', 'warm.new/blobs']) {
    const world = await CiWorld.make(t);
    await mkdir(join(world.folder, begun), { recursive: true });
    assert.equal(world.summary(['save', 'oci:warm', ...words]).status, 0, begun);
    assert.equal(statSync(join(world.folder, 'warm')).mode & 0o777, 0o700);
  }
  const used = (await CiWorld.make(t)).put('container', 'running');
  await mkdir(join(used.folder, 'warm.new/blobs'), { recursive: true });
  assert.equal(used.summary(['save', 'oci:warm', ...words]).reason, 'name-in-use');
  assert.ok(used.has('warm.new'), 'another save may be writing it');
});

test('save: an archive has its name when it is whole; a folder of others is not touched', async (t) => {
  const world = await CiWorld.make(t);
  const path = join(world.folder, 'warm.tar');
  assert.equal(world.summary(['save', path, ...words]).status, 0);
  assert.equal(readFileSync(path, 'utf8'), 'archive\n');
  const exported = `podman container checkpoint --compress none --export ${path}.new job`;
  assert.ok(world.commands().includes(exported));
  const { status, stderr } = world.run(['save', `oci:${join(world.folder, 'bin')}`, ...words]);
  assert.equal(status, 2);
  assert.match(stderr, /bin: is there, and no image layout/);
  assert.ok(world.has('bin/podman'));
});

test('save: what fails leaves nothing, and says where', async (t) => {
  const cases: [string, string][] = [
    ['fail-run', 'run-failed'],
    ['fail-checkpoint', 'checkpoint-failed'],
    ['fail-push', 'publish-failed'],
  ];
  for (const [file, reason] of cases) {
    const world = (await CiWorld.make(t)).put(file, 'Error: it is so\n');
    const summary = world.summary(['save', 'registry.example/x:1', ...words]);
    assert.deepEqual([summary.status, summary.reason], [1, reason]);
    assert.equal(summary.message, 'podman: Error: it is so');
    assert.ok(!world.has('container'), reason);
  }
  const host = (await CiWorld.make(t)).answer('check', { code: 3, stdout: '', stderr: 'Error\n' });
  const summary = host.summary(['save', 'registry.example/x:1', ...words]);
  assert.deepEqual([summary.status, summary.reason], [13, 'host']);
  const world = await CiWorld.make(t);
  world.put('run.out').answer('annotate', await cli(['annotate', '--format', 'json', 'x']));
  const refused = world.summary(['save', 'registry.example/x:1', ...words]);
  assert.deepEqual([refused.status, refused.code], [1, 'E_USAGE']);
});

/** As `migrate --format json` prints it. */
const moved = (downtime: number | null) => ({
  code: 0,
  stdout: `${JSON.stringify({ schema_version: 1, downtime_ms: downtime, bytes: 9 }, null, 2)}\n`,
  stderr: '',
});
const failed = (code: string) => ({
  code: 1,
  stdout: '',
  stderr: `job: making the checkpoint\n${JSON.stringify({
    schema_version: 1,
    error: { code, message: 'job: did not move', hint: 'h' },
  })}\n`,
});

test('migrate: the verdict, by what kfd-checkpoint says and by who runs it', async (t) => {
  const cases = [
    [moved(900), 'exited', 0, 'moved'],
    [moved(1000), 'exited', 0, 'moved'],
    [moved(null), 'exited', 22, 'too-slow'],
    [moved(1001), 'exited', 22, 'too-slow'],
    [failed('E_GPU_MISMATCH'), 'running', 20, 'not-moved'],
    [failed('E_IO'), 'exited', 21, 'not-running'],
    [failed('E_USAGE'), 'running', 2, 'usage'],
  ] as const;
  for (const [answer, state, status, reason] of cases) {
    const world = (await CiWorld.make(t)).answer('migrate', answer).put('container', state);
    const options = ['--with-image', '--fail-above', '1000', '--gpu-map', '0=1'];
    const summary = world.summary(['migrate', 'job', 'root@b', ...options]);
    assert.deepEqual([summary.status, summary.reason], [status, reason]);
    assert.deepEqual(world.commands(), [
      'kfd-checkpoint migrate --quiet --format json --with-image --gpu-map 0=1 job root@b',
    ]);
    assert.equal(world.read('container'), state, 'the container is left alone');
  }
});

test('migrate --dry-run: status 0 does not mean that it has moved', async (t) => {
  const world = (await CiWorld.make(t)).answer('migrate', moved(null)).put('container', 'running');
  const able = world.summary(['migrate', 'job', 'b', '--fail-above', '1000', '--dry-run']);
  assert.deepEqual([able.status, able.reason], [0, 'able']);
  world.answer('migrate', failed('E_GPU_MISMATCH'));
  const summary = world.summary(['migrate', 'job', 'b', '--dry-run']);
  assert.deepEqual([summary.status, summary.reason], [20, 'not-moved']);
});

test('JUnit: steps are cases, and text of others is escaped', async (t) => {
  const world = (await CiWorld.make(t)).put('fail-checkpoint', 'Error: <a> & "b" \\\u0007\n');
  const files = ['--junit', 'junit.xml', '--summary', 'summary.json'];
  const { status, stdout } = world.run(['save', 'registry.example/x:1', ...files, ...words]);
  assert.deepEqual([status, stdout], [1, '']);
  assert.equal(JSON.parse(world.read('summary.json')).message, 'podman: Error: <a> & "b" \\?');
  const text = world.read('junit.xml').replaceAll(/time="\d+"/g, 'time="0"');
  const counts = 'tests="4" failures="1" errors="0" skipped="0" time="0"';
  const passed = (name: string) =>
    `    <testcase classname="kfd-ci.save" name="${name}" time="0"/>`;
  assert.deepEqual(text.trimEnd().split('\n'), [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites ${counts}>`,
    `  <testsuite name="kfd-ci save" ${counts}>`,
    ...['host', 'run', 'ready'].map(passed),
    '    <testcase classname="kfd-ci.save" name="checkpoint" time="0">',
    '      <failure type="checkpoint-failed" message="podman: Error: &lt;a&gt; &amp; &quot;b&quot; \\?"/>',
    '    </testcase>',
    '  </testsuite>',
    '</testsuites>',
  ]);
  const skipped = await CiWorld.make(t);
  skipped.answer('check', failed('E_VRAM')).run(['start', 'oci:/x', '--name', 'j', ...files]);
  assert.match(
    skipped.read('junit.xml'),
    /skipped="1"[\s\S]*<skipped message="no-room: E_VRAM: job/,
  );
});

test('wrong command lines run nothing', async (t) => {
  const world = await CiWorld.make(t);
  const wrong = [
    [],
    ['begin', 'x'],
    ['start', 'oci:/x'],
    ['start', 'oci:/x', '--name', '-x'],
    ['start', 'oci:/x', '--name', 'j', '--ready'],
    ['start', 'oci:/x', '--name', 'j', '--nope', 'x'],
    ['start', 'oci:/x', '--name', 'j', '--wait', 'long'],
    ['start', 'oci:/x', '--name', 'j', '--wait', '08'],
    ['start', 'oci:/x', '--name', 'j', '--wait', '1,2'],
    ['start', 'oci:/x', '--name', 'j', 'worker'],
    ['start', 'oci:/x', '--name', 'j', '--dry-run'],
    ['save', 'oci:/x', '--with-image', ...words],
    ['save', 'oci:/x', '--name', 'j'],
    ['save', 'oci:/x:tag', ...words],
    ['migrate', 'job'],
    ['migrate', 'job', 'b', '--fail-above', '1s'],
    ['migrate', 'job', 'b', '--fail-above', '010'],
  ];
  for (const args of wrong) {
    const { status, stdout, stderr } = world.run(args);
    assert.deepEqual([status, stdout], [2, ''], args.join(' '));
    assert.match(stderr, /^kfd-ci: .*\n\n {2}kfd-ci save IMAGE/);
  }
  assert.deepEqual(world.commands(), []);
  assert.deepEqual(readdirSync(join(world.folder, 'tmp')), []);
});
