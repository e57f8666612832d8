import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Finding } from '../../src/cli/checks/finding.js';
import { kernel } from '../../src/cli/checks/kernel.js';
import { mendOf } from '../../src/cli/checks/mend.js';
import type { NativeServices } from '../../src/cli/context.js';
import { fakeNative, fakeRun } from './cli-context.js';
import { fixtures } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const engines = { podman: true, containerd: false };

const nodes = 'sys/class/kfd/kfd/topology/nodes';

/** Both GPUs of the fixture with other properties. */
async function gpusWith(changes: Readonly<Record<string, number>>) {
  const files: Record<string, string> = {};
  for (const node of [1, 2]) {
    const path = join(nodes, `${node}`, 'properties');
    let text = await readFile(join(fixtures, 'sysfs/two-gpus', path), 'utf8');
    for (const [key, value] of Object.entries(changes)) {
      text = text.replace(new RegExp(`^${key} .*$`, 'm'), `${key} ${value}`);
    }
    files[path] = text;
  }
  return files;
}

async function checked(
  t: TestContext,
  files: Readonly<Record<string, string>>,
  taken: 'yes' | 'no' | NativeServices['kfdRestoreTakes'] = 'no',
): Promise<(name: string) => Finding> {
  const root = await bentHost(t, 'two-gpus', files);
  const kfdRestoreTakes = typeof taken === 'string' ? () => taken : taken;
  const native = { ...fakeNative, kfdRestoreTakes };
  const mend = await mendOf(root);
  const host = { root, prefix: '/', run: fakeRun({}), native, nodeVersion: '20.0.0' };
  const context = { ...host, engines, mend };
  const findings = await kernel(context);
  return (name) => {
    const found = findings.find((one) => one.name === name);
    assert.ok(found, `${name}: not among ${findings.map((one) => one.name).join(', ')}`);
    return found;
  };
}

const release = (text: string) => ({ 'proc/sys/kernel/osrelease': `${text}\n` });

test('a kernel that was read is ok, any other is a warning that names the nearest', async (t) => {
  assert.equal((await checked(t, release('6.12.118+deb13-amd64')))('kernel').status, 'ok');
  const other = (await checked(t, release('6.8.0-45-generic')))('kernel');
  assert.equal(other.status, 'warn');
  assert.match(other.message, /nobody has read its driver; 6\.12\.107 is the nearest/);
  const dkms = { ...release('6.12.118'), 'sys/module/amdgpu/version': '6.16.13\n' };
  const own = (await checked(t, dkms))('kernel');
  assert.equal(own.status, 'warn');
  assert.match(own.message, /nobody has read its amdgpu 6\.16\.13, which is not the kernel's own;/);
});

test('parameters of the driver are told, and judged', async (t) => {
  const parameters = (values: Readonly<Record<string, number>>) =>
    Object.fromEntries(
      Object.entries(values).map(([name, value]) => [
        `sys/module/amdgpu/parameters/${name}`,
        `${value}\n`,
      ]),
    );
  const usual = { cwsr_enable: 1, sched_policy: 0, noretry: -1, mes: 0 };
  assert.deepEqual((await checked(t, parameters(usual)))('amdgpu'), {
    name: 'amdgpu',
    status: 'ok',
    message: 'cwsr_enable=1, sched_policy=0, noretry=-1, mes=0',
  });
  const without = await checked(t, parameters({ ...usual, cwsr_enable: 0 }));
  assert.equal(without('amdgpu').status, 'fail');
  assert.deepEqual(without('gpu 0 queues').rows, ['no_cwsr']);
  assert.match(without('gpu 0 queues').message, /no queue comes back/);
  const other = await checked(t, parameters({ ...usual, sched_policy: 2 }));
  assert.equal(other('amdgpu').status, 'warn');
});

test('what comes back on each GPU, and what does not', async (t) => {
  const usual = (await checked(t, release('6.12.118')))('gpu 1 queues');
  assert.equal(usual.status, 'ok');
  assert.match(usual.message, /^gfx90a, no SVM: compute and sdma queues come back$/);
  const later = (await checked(t, release('7.3.4')))('gpu 1 queues');
  assert.equal(later.status, 'ok');
  assert.match(later.message, /compute: a dispatch was stopped and its control stack/);
  assert.deepEqual(later.rows, ['stack_lost']);
  const gfx11 = (await checked(t, await gpusWith({ gfx_target_version: 110000 })))('gpu 0 queues');
  assert.equal(gfx11.status, 'fail');
  assert.match(gfx11.message, /^gfx1100, no SVM, MES: no queue comes back; /);
});

test('one able GPU is enough for the host', async (t) => {
  const files = await gpusWith({ gfx_target_version: 100300 });
  delete files[join(nodes, '2', 'properties')];
  const finding = await checked(t, { ...files, ...release('6.12.118') });
  assert.equal(finding('gpu 0 queues').status, 'warn');
  assert.match(
    finding('gpu 0 queues').message,
    /^gfx1030, no SVM: sdma queues come back; compute: /,
  );
  assert.equal(finding('gpu 1 queues').status, 'ok');
});

test('with SVM, compute queues of ROCm do not come back on Linux 6.12.118', async (t) => {
  const svm = await gpusWith({ capability: 0x0800_2000 });
  const finding = await checked(t, { ...svm, ...release('6.12.118') });
  assert.equal(finding('gpu 0 queues').status, 'warn');
  assert.match(
    finding('gpu 0 queues').message,
    /^gfx90a, SVM: sdma queues come back; compute: the/,
  );
  const before = await checked(t, { ...svm, ...release('6.12.107') });
  assert.equal(before('gpu 0 queues').status, 'ok');
});

test('on several dies the kernel is asked', async (t) => {
  const files = {
    ...(await gpusWith({ gfx_target_version: 90402, num_xcc: 8 })),
    ...release('7.3.4'),
  };
  const refused = (await checked(t, files, 'no'))('gpu 0 queues');
  assert.equal(refused.status, 'fail');
  assert.deepEqual(refused.rows, ['dies_not_taken', 'stack_lost']);
  const unread = (await checked(t, { ...files, ...release('7.4.0') }, 'no'))('gpu 0 queues');
  assert.equal(unread.status, 'warn', 'likely, not certain');
  const taken = (await checked(t, files, 'yes'))('gpu 0 queues');
  assert.equal(taken.status, 'ok');
  const half = (await checked(t, files, ({ type }) => (type === 0 ? 'yes' : 'no')))('gpu 0 queues');
  assert.equal(half.status, 'warn');
  assert.match(half.message, /: compute queues come back; compute, sdma: this kernel saves all/);
  assert.match(taken.message, /^gfx942, 8 compute dies, no SVM: compute and sdma queues come back/);
});

test('a host without a GPU has nothing to say here', async (t) => {
  const root = await bentHost(t, 'cpu-only', {});
  const context = {
    root,
    prefix: '/',
    run: fakeRun({}),
    native: fakeNative,
    nodeVersion: '20',
    engines,
    mend: await mendOf(root),
  };
  assert.deepEqual(await kernel(context), []);
});
