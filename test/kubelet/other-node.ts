/**
 * A pod continues on another node: its GPU has another KFD id and other DRM nodes there, and `/dev/kfd` another major.
 * One guest plays both nodes, the second one with other GPUs and a kubelet that has started anew.
 */

import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import {
  goHome,
  gpuWith,
  loadGpu,
  meetComplaint,
  pinnedEventsPage,
  takeMajor,
} from '../e2e/support/gpu.js';
import { saved, sound, unpacked } from './support/node.js';
import { onNode } from './support/on-node.js';
import { newControl, restoreFrom } from './support/pod.js';
import { firstPid } from './support/state.js';

const numberOf = (path: string) => statSync(path).rdev;

onNode('on another node', { gpus: 2 }, async (node, step) => {
  const { kubelet, plugin } = node;
  const control = newControl('moves');
  let image = '';
  const before = numberOf('/dev/kfd');
  await step('a pod is saved, and ends', async () => {
    plugin.offer(0);
    kubelet.add({ name: 'here', control });
    await kubelet.running('here-lab');
    await control.ready(240);
    const archive = await saved(node, 'here-lab');
    await node.deleted('here');
    await node.assertNothingLeft();
    image = await unpacked(archive, '/tmp/moves');
  });
  await step('it continues where all numbers are other ones', async () => {
    await takeMajor();
    await loadGpu(gpuWith('vram_mb=16,1024', 'first_slot=7'));
    assert.notEqual(numberOf('/dev/kfd'), before);
    // Before a kubelet hears of the plugin: it would give away what it has heard of first.
    plugin.offer(1);
    await node.restartKubelet('SIGTERM');
    const annotations = restoreFrom(image);
    kubelet.add({ name: 'there', control, command: ['false'], annotations });
    const root = `/proc/${await firstPid(await kubelet.running('there-lab'))}/root/dev`;
    assert.match(await control.ask('verify'), sound);
    assert.equal(numberOf(`${root}/kfd`), numberOf('/dev/kfd'));
    const found = readdirSync(`${root}/dri`).map((name) => numberOf(`${root}/dri/${name}`));
    const own = ['card1', 'renderD129'].map((name) => numberOf(`/dev/dri/${name}`));
    assert.deepEqual([...new Set(found)].sort(), own.sort());
  });
  await step('it is saved there, too, and goes on', async () => {
    await saved(node, 'there-lab');
    assert.match(await control.ask('verify'), sound);
    await node.deleted('there');
    await node.assertEnded();
    await meetComplaint(pinnedEventsPage);
    // The pages that it is about stay pinned.
    await goHome();
  });
});
