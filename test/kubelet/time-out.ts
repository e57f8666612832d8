/** The kubelet's limit passes while a checkpoint is on its way, or its own caller goes. */

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { until } from '../e2e/support/command.js';
import { usualLimitS } from './support/kubelet.js';
import { inTheMiddleOf, slowly } from './support/long.js';
import { archives, type Node, saved, sound } from './support/node.js';
import { onNode } from './support/on-node.js';
import { newControl } from './support/pod.js';
import { assertGivenUp } from './support/sessions.js';
import { taskState } from './support/state.js';

/** Less than the contents take. */
const limitS = 9;
const worker = ['gpu-worker', '--vram-mib', '448', '--pending-barrier'];
const pod = 'long-lab';

/** The container is no longer paused, and no archive is left. */
async function goesOn(container: string, before: readonly string[]): Promise<void> {
  await until('the end of the pause', async () => (await taskState(container)) === 'RUNNING', 90);
  assert.deepEqual(archives(), before);
}

async function limitPasses(node: Node, container: string): Promise<void> {
  await node.restartKubelet('SIGTERM', { limitS });
  await node.kubelet.running(pod);
  await slowly(async () => {
    const saving = node.kubelet.checkpoint(pod);
    await inTheMiddleOf('dump');
    const { status, body } = await saving;
    assert.match(`${status} ${body}`, /^500 .*(DeadlineExceeded|deadline exceeded)/s);
    await goesOn(container, []);
  });
  await assertGivenUp();
}

onNode('the kubelet’s limit passes', {}, async (node, step) => {
  const { kubelet } = node;
  const control = newControl('long');
  let container = '';
  await step('a pod with long contents', async () => {
    kubelet.add({ name: 'long', control, command: worker });
    container = await kubelet.running(pod);
    await control.ready(240);
  });
  await step('the checkpoint is given up, the pod goes on', async () => {
    await limitPasses(node, container);
    assert.equal(await kubelet.running(pod), container);
    assert.match(await control.ask('verify'), sound);
  });
  await step('the next call works', async () => {
    await node.restartKubelet('SIGTERM', { limitS: usualLimitS });
    await kubelet.running(pod);
    // There is no room for two of them in the guest.
    rmSync(await saved(node, pod));
    assert.equal(await taskState(container), 'RUNNING');
    assert.match(await control.ask('verify'), sound);
  });
  await step('the kubelet’s caller goes, and calls again at once', async () => {
    const before = archives();
    const caller = new AbortController();
    await slowly(async () => {
      const left = node.kubelet.checkpoint(pod, undefined, caller.signal);
      await Promise.all([
        assert.rejects(left, /abort/i),
        inTheMiddleOf('dump').then(() => caller.abort()),
      ]);
      await assertGivenUp();
    });
    await saved(node, pod);
    assert.equal(archives().length, before.length + 1, archives().join(' '));
    assert.match(await control.ask('verify'), sound);
  });
  await node.deleted('long');
});
