import assert from 'node:assert/strict';
import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { evictionsOver, readEvictions } from '../../src/session/restore/evictions.js';
import { temporaryFolder } from './paths.js';

const namespaces = { initial: 'pid:[4026531836]', other: 'pid:[4026532455]' };

const counter = (root: string, pid: number, gpu: number) =>
  join(root, `sys/class/kfd/kfd/proc/${pid}/stats_${gpu}/evicted_ms`);

/** A process 77 with counters of 0 on these GPUs. */
async function host(
  t: TestContext,
  gpus: readonly number[],
  namespace = namespaces.initial,
): Promise<string> {
  const root = await temporaryFolder(t);
  await mkdir(join(root, 'proc/self/ns'), { recursive: true });
  await symlink(namespace, join(root, 'proc/self/ns/pid'));
  for (const gpu of gpus) {
    await mkdir(dirname(counter(root, 77, gpu)), { recursive: true });
    await writeFile(counter(root, 77, gpu), '0\n');
  }
  return root;
}

test('an eviction is over when the counters of all GPUs have changed', async (t) => {
  const root = await host(t, [10, 20]);
  const evicted = await readEvictions(77, [10, 20], root);
  assert.equal(evicted.unseen, undefined);
  let over = false;
  const wait = evictionsOver([evicted], 60, 1).then(() => {
    over = true;
  });
  await writeFile(counter(root, 77, 10), '17178890000\n');
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.ok(!over, 'one GPU is still evicted');
  await writeFile(counter(root, 77, 20), '3\n');
  await wait;
});

test('queues that never run again fail the restore with process and GPU', async (t) => {
  const evicted = await readEvictions(77, [10], await host(t, [10]));
  await assert.rejects(evictionsOver([evicted], 0.05, 1), {
    code: 'E_TIMEOUT',
    message: 'process 77: its queues do not run on gpu 10, 0.1 s after RESUME',
    hint: /kernel log/,
  });
});

test('a process that ends is not waited for', async (t) => {
  const root = await host(t, [10]);
  const evicted = await readEvictions(77, [10], root);
  const wait = assert.rejects(evictionsOver([evicted], 60, 1), { code: 'E_GPU_IO' });
  await rm(join(root, 'sys/class/kfd/kfd/proc/77'), { recursive: true });
  await wait;
});

test('without a counter RESUME is believed, and the reason is known', async (t) => {
  const none = await readEvictions(77, [10], await host(t, []));
  assert.equal(none.unseen, 'KFD shows no evicted_ms for gpu 10');
  await evictionsOver([none], 0);
  const inner = await readEvictions(77, [10], await host(t, [10], namespaces.other));
  assert.match(inner.unseen ?? '', /initial pid namespace/);
  assert.equal(inner.counters.size, 0);
});

test('a GPU with a counter is waited for beside one without', async (t) => {
  const root = await host(t, [10]);
  const evicted = await readEvictions(77, [10, 20], root);
  assert.equal(evicted.unseen, 'KFD shows no evicted_ms for gpu 20');
  assert.deepEqual([...evicted.counters.keys()], [counter(root, 77, 10)]);
  assert.deepEqual(await readdir(join(root, 'sys/class/kfd/kfd/proc')), ['77']);
});
