/** `kfd-ci start`: what becomes of each failure, decided by the real messages of kfd-checkpoint. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { archive, checkpointOfHere } from './archive-builder.js';
import { CiWorld, script } from './ci-programs.js';
import { cli } from './cli-context.js';
import { repository } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const pci = 'sys/devices/pci0000:00/0000:03:00.0';
const node = 'sys/class/kfd/kfd/topology/nodes/1/properties';
const otherModel = 'simd_count 416\ngfx_target_version 90006\ndrm_render_minor 128\nnum_xcc 1\n';

/** What `check` and `restore` say on a host, and of an archive that is made by `bend`. */
async function said(
  t: TestContext,
  host: string,
  changes: Record<string, string>,
  bend: (files: ReturnType<typeof checkpointOfHere>) => void = () => undefined,
) {
  const files = checkpointOfHere();
  bend(files);
  const root = await bentHost(t, host, changes);
  const path = await archive(t, files);
  return cli(['check', '--format', 'json', '--root', root, path]);
}

const start = ['start', 'oci:/srv/warm', '--name', 'job'];
const cold = ['--', '--device', '/dev/kfd', 'worker', 'serve now'];

test('a warm start: pull, check, restore, ready', async (t) => {
  const world = await CiWorld.make(t);
  world.put('ready').put('restore.out', '{\n  "schema_version": 1,\n  "rewritten": false\n}\n');
  const image = 'registry.example/ci/worker:warm';
  const words = ['start', image, '--name', 'job', '--ready', 'test -e /ready', '--gpu-map', '1=2'];
  const summary = world.summary([...words, '--log', 'x', ...cold], {
    KFD_CI_RESTORE_OPTIONS: '--ignore-static-ip --publish 80:80',
  });
  assert.deepEqual([summary.status, summary.start, summary.reason], [0, 'warm', 'restored']);
  assert.deepEqual(summary.report, { schema_version: 1, rewritten: false });
  assert.deepEqual(
    summary.steps.map(({ name, result }) => `${name} ${result}`),
    ['pull passed', 'check passed', 'restore passed', 'ready passed'],
  );
  const target = `containers-storage:${image}`;
  assert.deepEqual(world.commands(), [
    `podman pull --quiet ${image}`,
    `kfd-checkpoint check --format json --gpu-map 1=2 ${target}`,
    `kfd-checkpoint restore --quiet --format json --gpu-map 1=2 ${target} --name job` +
      ' --ignore-static-ip --publish 80:80',
  ]);
  assert.ok(world.has('container'), 'it goes on');
});

test('the codes of a refusal become a status and a reason', async (t) => {
  const cut = (files: Record<string, unknown>) => {
    files['checkpoint/kfd-state-0.img'] = 'OTHER';
  };
  const cases = [
    [11, 'no-gpu', 'E_NO_GPU', 'no-kfd', {}],
    [12, 'no-room', 'E_VRAM', 'two-gpus', { [`${pci}/mem_info_vram_used`]: '68702699519\n' }],
    [10, 'other-gpu', 'E_GPU_MISMATCH', 'two-gpus', { [node]: otherModel }],
    [10, 'other-kernel', 'E_KERNEL_MISMATCH', 'two-gpus', { 'proc/sys/kernel/osrelease': '7.3\n' }],
    [10, 'damaged-image', 'E_IMAGE_CORRUPT', 'two-gpus', {}, cut],
  ] as const;
  for (const [status, reason, code, host, changes, bend] of cases) {
    const world = await CiWorld.make(t);
    const check = await said(t, host, changes, bend);
    assert.notEqual(check.code, 0, reason);
    const summary = world.answer('check', check).summary(start);
    assert.deepEqual([summary.status, summary.reason, summary.code], [status, reason, code]);
    assert.match(summary.message, /would not restore here: \S/);
    assert.equal(summary.report?.['restorable'], false);
    assert.deepEqual(world.commands(), ['kfd-checkpoint check --format json oci:/srv/warm']);
  }
  const world = await CiWorld.make(t);
  const gone = await cli(['check', '--format', 'json', 'oci:/nowhere']);
  const missing = world.answer('check', gone).summary(start);
  assert.deepEqual([missing.status, missing.reason], [10, 'missing-image']);
});

test('of several reasons the one counts that a cold start does not help against', async (t) => {
  const error = (...codes: string[]) => ({
    code: 5,
    stdout: '',
    stderr: `${JSON.stringify({
      schema_version: 1,
      error: {
        code: codes[0],
        message: 'job: a "reason", [{"code":"E_USAGE"}]',
        details: { reasons: codes.map((code) => ({ code, message: 'm', hint: 'h' })) },
      },
    })}\n`,
  });
  const cases: [string[], number, string][] = [
    [['E_KERNEL_MISMATCH', 'E_NO_GPU'], 11, 'no-gpu'],
    [['E_GPU_MISMATCH', 'E_NO_GPU'], 10, 'other-gpu'],
    [['E_VRAM', 'E_CPU_MISMATCH'], 10, 'other-cpu'],
    [['E_GPU_MISMATCH', 'E_HOST'], 13, 'host'],
    [['E_IO', 'ENOSPC'], 12, 'no-room'],
    [['E_IO'], 10, 'failed'],
    [['E_USAGE'], 2, 'usage'],
    [['E_CANCELLED'], 1, 'interrupted'],
  ];
  for (const [codes, status, reason] of cases) {
    const world = (await CiWorld.make(t)).answer('check', error(...codes));
    const summary = world.summary(start);
    assert.deepEqual([summary.status, summary.reason], [status, reason], codes.join());
    assert.equal(summary.message, 'job: a "reason", [{"code":"E_USAGE"}]');
  }
});

test('with the words of podman run it starts cold by itself, and says why', async (t) => {
  const world = await CiWorld.make(t);
  world.answer('check', await said(t, 'two-gpus', { [node]: otherModel })).put('logs', 'begins\n');
  const words = [...start, '--log', 'serves', '--runtime', 'runc', ...cold];
  const summary = world.summary(words);
  assert.deepEqual(
    [summary.status, summary.start, summary.reason, summary.code],
    [0, 'cold', 'other-gpu', 'E_GPU_MISMATCH'],
  );
  assert.deepEqual(
    summary.steps.map(({ name, result }) => `${name} ${result}`),
    ['check skipped', 'run passed', 'ready passed'],
  );
  const run = 'podman --runtime runc run --detach --name job --device /dev/kfd worker serve now';
  assert.equal(world.commands().at(-1), run);
  assert.ok(world.has('container'));
});

test('a cold start that fails has its own message, and no code of the warm one', async (t) => {
  const refused = await said(t, 'two-gpus', { [node]: otherModel });
  const cases = [
    ['fail-run', [], 'run-failed', 'podman: Error: it is so'],
    ['logs', ['--wait', '0', '--log', 'never'], 'not-ready', 'not ready in 0 s'],
    ['exits', ['--ready', 'true'], 'not-ready', 'the container is exited'],
  ] as const;
  for (const [file, options, reason, message] of cases) {
    const world = (await CiWorld.make(t)).answer('check', refused).put(file, 'Error: it is so\n');
    const summary = world.summary([...start, ...options, ...cold]);
    assert.deepEqual([summary.status, summary.reason, summary.start], [1, reason, 'cold']);
    assert.deepEqual([summary.code, summary.message], ['', message]);
  }
});

test('an image that cannot be pulled, and a restore that fails', async (t) => {
  const pull = (await CiWorld.make(t)).put('fail-pull', 'Error: unknown\n"manifest"\\\n');
  const missing = pull.summary(['start', 'registry.example/x:1', '--name', 'job']);
  assert.deepEqual([missing.status, missing.reason], [10, 'missing-image']);
  assert.equal(missing.message, 'podman: "manifest"\\');

  const root = await bentHost(t, 'two-gpus', {});
  const path = await archive(t, checkpointOfHere());
  const failed = await cli(['restore', '--format', 'json', '--root', root, path], {
    runThrough: async () => 125,
  });
  assert.equal(failed.code, 125);
  const world = await CiWorld.make(t);
  const summary = world.answer('restore', failed).summary([...start, ...cold]);
  assert.deepEqual([summary.status, summary.start, summary.code], [0, 'cold', 'E_IO']);
  assert.deepEqual(world.commands().slice(1), [
    'kfd-checkpoint restore --quiet --format json oci:/srv/warm --name job',
    'podman rm --force --time 0 job',
    'podman run --detach --name job --device /dev/kfd worker serve now',
  ]);
});

test('a container that is restored and never ready goes, and is started cold', async (t) => {
  const world = await CiWorld.make(t);
  const summary = world.summary([...start, '--ready', 'true', '--wait', '0']);
  assert.deepEqual([summary.status, summary.reason, summary.start], [10, 'not-ready', 'none']);
  assert.equal(summary.message, 'not ready in 0 s');
  assert.ok(!world.has('container'));
  assert.deepEqual(world.summary([...start, '--ready', 'true', ...cold]).start, 'warm');
});

test('a name that is in use is refused, and that container stays', async (t) => {
  const world = (await CiWorld.make(t)).put('container', 'running');
  const summary = world.summary([...start, ...cold]);
  assert.deepEqual([summary.status, summary.reason], [1, 'name-in-use']);
  assert.deepEqual(world.commands(), []);
});

test('docs/ci.md says which codes become what, in the order of the script', () => {
  const codes = (text: string) => text.match(/\bE[_A-Z]+\b/g) ?? [];
  const text = readFileSync(script, 'utf8');
  const rules = [...text.matchAll(/^\tif any (.*); then (finish \d+|cold) ([a-z-]+)\b.*; fi$/gm)];
  const done = rules.map(([, when = '', what = '', reason]) => {
    return [codes(when), Number(/\d+/.exec(what)?.[0] ?? 10), reason];
  });
  const page = readFileSync(join(repository, 'docs/ci.md'), 'utf8');
  const rows = [...page.matchAll(/^\| (.*`E[A-Z_]+`.*) \| (\d+) \| `([a-z-]+)` \|$/gm)];
  const told = rows.map(([, when = '', status, reason]) => [codes(when), Number(status), reason]);
  assert.equal(told.length, 10);
  assert.deepEqual(told, done.slice(0, told.length));
});

test('without kfd-checkpoint, or with one that dies, it is to start cold', async (t) => {
  const world = (await CiWorld.make(t)).answer('check', { code: 137, stdout: '', stderr: 'x\n' });
  const summary = world.summary(start);
  assert.deepEqual([summary.status, summary.code], [10, '']);
  assert.equal(summary.message, 'kfd-checkpoint check: status 137');
});
