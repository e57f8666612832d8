/** A restored task below its own cgroup, while it opens /dev/kfd. Folders play cgroups. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { native } from '../../src/native.js';
import { DeviceFilter } from '../../src/session/restore/device-filter.js';
import { hostWith } from './host-builder.js';
import { temporaryFolder } from './paths.js';

const { gpus } = hostWith({ render_minor: 130 }, { render_minor: 140 });

async function cgroups(t: TestContext) {
  const root = await temporaryFolder(t);
  await writeFile(join(root, 'cgroup.controllers'), 'memory pids');
  const text = await readFile('/proc/self/cgroup', 'utf8');
  const own = join(root, /^0::(.*)$/m.exec(text)?.[1] ?? assert.fail(text));
  await mkdir(own, { recursive: true });
  const filtered = join(own, `kfd-checkpoint-${process.pid}`);
  return {
    root,
    own,
    filtered,
    procs: join(own, 'cgroup.procs'),
    inside: join(filtered, 'cgroup.procs'),
  };
}

test('the task is moved below a filter for the render nodes of its GPUs, and back', async (t) => {
  const { root, filtered, procs, inside } = await cgroups(t);
  const filters: unknown[] = [];
  t.mock.method(native(), 'attachDeviceFilter', (...args: unknown[]) => {
    assert.ok(!existsSync(inside), 'the task is there before the filter');
    filters.push(args);
  });
  const filter = await DeviceFilter.enter(process.pid, gpus, root);
  assert.deepEqual(filters, [[filtered, [130, 140]]]);
  assert.equal(await readFile(inside, 'utf8'), String(process.pid));
  await rm(inside); // the kernel's own files are no obstacle
  await filter.leave();
  assert.equal(await readFile(procs, 'utf8'), String(process.pid));
  assert.ok(!existsSync(filtered));
});

test('without the filter the task is not moved, and nothing stays', async (t) => {
  const { root, filtered } = await cgroups(t);
  t.mock.method(native(), 'attachDeviceFilter', () => {
    throw Object.assign(new Error('BPF_PROG_LOAD: Operation not permitted'), { code: 'KFD_IO' });
  });
  await assert.rejects(DeviceFilter.enter(process.pid, gpus, root), { code: 'KFD_IO' });
  assert.ok(!existsSync(filtered));
});

test('a task that has ended need not come back; any other error is told', async (t) => {
  const { root, filtered, procs, inside } = await cgroups(t);
  t.mock.method(native(), 'attachDeviceFilter', () => undefined);
  const entered = async () => {
    const filter = await DeviceFilter.enter(process.pid, gpus, root);
    await rm(inside);
    return filter;
  };
  // The kernel answers ESRCH for this file of a task that has ended and was not waited for.
  const shell = spawn('sh', ['-c', 'sleep 0.1 & echo $!; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.after(() => shell.kill('SIGKILL'));
  const [pid] = (await once(shell.stdout, 'data')) as [Buffer];
  await symlink(`/proc/${Number(pid.toString())}/coredump_filter`, procs);
  const gone = await entered();
  let failure: unknown;
  do failure = await writeFile(procs, '1').catch((error: unknown) => error);
  while (failure === undefined);
  await gone.leave();
  assert.ok(!existsSync(filtered));
  await rm(procs);
  await mkdir(procs);
  const filter = await entered();
  await assert.rejects(filter.leave(), { code: 'EISDIR' });
});

test('under cgroup v1 the container is refused with what to do', async (t) => {
  const { root, filtered } = await cgroups(t);
  await rm(join(root, 'cgroup.controllers'));
  await assert.rejects(DeviceFilter.enter(process.pid, gpus, root), {
    code: 'E_UNSUPPORTED_STATE',
    message: "container: it was given some of the host's GPUs, and this host has cgroup v1",
    hint: /^boot with cgroup v2/,
  });
  assert.ok(!existsSync(filtered));
});
