/**
 * What takes long, with both releases of containerd: many containers, SIGKILL at each step. Run by npm run
 * test:containerd.
 */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { run, until } from './support/command.js';
import {
  Containerd,
  ctr,
  haveNextRelease,
  nextRelease,
  ourRuntime,
  ourShimAsStock,
  shimsLeft,
  stockRuntime,
  Task,
} from './support/containerd.js';
import { podLife } from './support/containerd-cri.js';
import { cycles } from './support/containerd-cycles.js';
import { kills } from './support/containerd-kills.js';
import { life } from './support/containerd-life.js';
import { partTest } from './support/part.js';
import { assertNothingLeft } from './support/suite.js';

/** Refused by name: the stock shim calls crun with an option of runc. The container computes on. */
async function crunIsRefused(): Promise<void> {
  const flags = ['--runtime', stockRuntime, '--runc-binary', '/usr/bin/crun'];
  const task = new Task('crun');
  const again = new Task('crun-again');
  try {
    await run('ctr', ...task.runWithGpu(flags, 'gpu-worker', '--vram-mib', '16'));
    await task.control.ready();
    const saved = await ctr('container', 'checkpoint', '--task', task.id, 'localhost/crun');
    const annotation = ['--annotation', 'io.kfd-checkpoint.restore-from=/tmp'];
    const restored = await ctr(...again.runWithGpu([...flags, ...annotation], 'true'));
    for (const { status, stderr } of [saved, restored]) {
      assert.equal(status, 1);
      assert.match(stderr, /E_UNSUPPORTED_STATE: containerd cannot restore what crun runs/);
    }
    assert.match(await task.control.ask('verify'), /^verified /);
  } finally {
    await Promise.all([task.remove(), again.remove()]);
  }
  await assertNothingLeft();
}

async function everything(t: TestContext, containerd: Containerd): Promise<void> {
  await t.test('equal lives', async () => {
    const [stock, ours] = await Promise.all([life(stockRuntime, 'stock'), life(ourRuntime, 'kfd')]);
    assert.deepEqual(ours, stock);
  });
  await t.test('SIGKILL at each step', () => kills(containerd));
  await t.test('200 containers', () => cycles(200));
  await until('the end of the shims', async () => (await shimsLeft()).length === 0, 20).catch(
    async () => assert.deepEqual(await shimsLeft(), []),
  );
  await assertNothingLeft();
}

partTest('for long', {}, async (suite) => {
  const containerd = await Containerd.start();
  writeFileSync('/etc/criu/default.conf', ''); // the shim tells CRIU of the plugin
  try {
    await suite.test('the distribution’s release', (t) => everything(t, containerd));
    await suite.test('crun, with our shim under the stock shim’s name', async () => {
      await containerd.restart(ourShimAsStock());
      await crunIsRefused();
    });
    const skip = haveNextRelease ? false : 'there was no second containerd when the guest was made';
    await suite.test('the release that follows', { skip }, async (t) => {
      await containerd.restart(nextRelease);
      await everything(t, containerd);
    });
    await suite.test('a pod of Kubernetes', { skip }, () => podLife(containerd));
  } finally {
    await containerd.stop();
    await run('kfd-checkpoint', 'configure');
  }
});
