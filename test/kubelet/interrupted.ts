/** Pods are deleted, and the kubelet is restarted, in the middle of a checkpoint and of a restore. */

import assert from 'node:assert/strict';
import { until } from '../e2e/support/command.js';
import type { Control } from '../e2e/support/container.js';
import { inTheMiddleOf, longWorker, slowly } from './support/long.js';
import { archives, type Node, saved, sound, unpacked } from './support/node.js';
import { onNode } from './support/on-node.js';
import { newControl, restoreFrom } from './support/pod.js';
import { assertGivenUp, endedIn } from './support/sessions.js';
import { taskState } from './support/state.js';

/** A pod that runs, with long contents. Returns its container. */
async function longPod(node: Node, name: string, control: Control): Promise<string> {
  node.kubelet.add({ name, control, command: longWorker });
  const container = await node.kubelet.running(`${name}-lab`);
  await control.ready(240);
  return container;
}

/** The caller of a checkpoint whose kubelet goes, or whose pod, gets some answer or none. */
const someAnswer = (call: Promise<unknown>) => call.then(String, String);

onNode('the kubelet is restarted, pods are deleted', {}, async (node, step) => {
  const control = newControl('first');
  let container = '';
  let archive = '';
  await step('a pod with long contents', async () => {
    container = await longPod(node, 'first', control);
    archive = await saved(node, 'first-lab');
  });
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    await step(`${signal} for the kubelet in a checkpoint: the pod goes on`, async () => {
      const before = archives();
      await slowly(async () => {
        const answer = someAnswer(node.kubelet.checkpoint('first-lab'));
        await inTheMiddleOf('dump');
        await node.restartKubelet(signal);
        await answer;
        await assertGivenUp();
      });
      await until('its end', async () => (await taskState(container)) === 'RUNNING', 60);
      assert.equal(await node.kubelet.running('first-lab'), container);
      assert.match(await control.ask('verify'), sound);
      assert.deepEqual(archives(), before);
    });
  }
  await step('the new kubelet makes a checkpoint', () =>
    saved(node, 'first-lab').then(() => undefined),
  );
  await step('the pod is deleted in a checkpoint: nothing is left', async () => {
    const before = archives();
    await slowly(async () => {
      const answer = someAnswer(node.kubelet.checkpoint('first-lab'));
      await inTheMiddleOf('dump');
      await node.deleted('first');
      await answer;
    });
    await node.assertNothingLeft();
    assert.deepEqual(archives(), before);
  });
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    await step(`${signal} for the kubelet in a restore: nothing is left of it`, async () => {
      const image = await unpacked(archive, `/tmp/${signal}`);
      const name = `in-${signal.toLowerCase()}`;
      await slowly(async () => {
        const annotations = restoreFrom(image);
        node.kubelet.add({ name, control, command: ['false'], annotations });
        await inTheMiddleOf('restore');
        await endedIn(() => node.restartKubelet(signal));
      });
      // The new kubelet admits the pod again only where it knows its devices by then.
      await node.deleted(name);
      await node.assertNothingLeft();
    });
  }
  const image = await unpacked(archive, '/tmp/interrupted');
  const annotations = restoreFrom(image);
  await step('the new kubelet restores a pod', async () => {
    node.kubelet.add({ name: 'next', control, command: ['false'], annotations });
    await node.kubelet.running('next-lab');
    assert.match(await control.ask('verify'), sound);
    await node.deleted('next');
    await node.assertNothingLeft();
  });
  await step('a pod is deleted in its restore: nothing is left', async () => {
    await slowly(async () => {
      node.kubelet.add({ name: 'second', control, command: ['false'], annotations });
      await inTheMiddleOf('restore');
      await node.deleted('second');
    });
    await node.assertNothingLeft();
  });
});
