/** Pods of an API server with a RuntimeClass: one of eight GPUs, another one after a restore, eviction. */

import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { gpuWith, loadGpu, meetComplaint, pinnedEventsPage } from '../e2e/support/gpu.js';
import { noApiServer } from './support/binaries.js';
import { gpuResource } from './support/device-plugin.js';
import { inTheMiddleOf, longWorker, slowly } from './support/long.js';
import { archives, saved, sound, unpacked } from './support/node.js';
import { onNode } from './support/on-node.js';
import { newControl, restoreFrom } from './support/pod.js';
import { firstPid } from './support/state.js';

const gpus = 8;

/** All DRM nodes of the container are those of this GPU. */
async function assertGpu(container: string, gpu: number): Promise<void> {
  const folder = `/proc/${await firstPid(container)}/root/dev/dri`;
  const numbers = (path: string) => statSync(path).rdev;
  const found = readdirSync(folder).map((name) => numbers(`${folder}/${name}`));
  const own = [`card${gpu}`, `renderD${128 + gpu}`].map((name) => numbers(`/dev/dri/${name}`));
  assert.deepEqual([...new Set(found)].sort(), own.sort(), `${readdirSync(folder).join(' ')}`);
}

const options = { gpu: gpuWith('gpus=8'), gpus, means: 'cdi', inCluster: true } as const;

onNode('pods of a cluster', { ...options, skip: noApiServer }, async (node, step) => {
  const { api, kubelet, plugin } = node;
  const control = newControl('one');
  let image = '';
  await step('a pod with a RuntimeClass gets one of eight GPUs by its CDI name', async () => {
    await api.offers(gpuResource, gpus);
    plugin.offer(3);
    await api.offers(gpuResource, 1);
    await api.run({ name: 'one', control });
    await assertGpu(await kubelet.running('one'), 3);
    await control.ready(240);
  });
  await step('its checkpoint is right, and it goes on', async () => {
    const archive = await saved(node, 'one');
    assert.match(await control.ask('verify'), sound);
    image = await unpacked(archive, '/tmp/of-cluster');
    await api.delete('one');
    await api.gone('one');
  });
  await step('another pod is given another GPU, and continues', async () => {
    plugin.offer(6);
    const annotations = restoreFrom(image);
    await api.run({ name: 'other', control, annotations, command: ['false'] });
    await assertGpu(await kubelet.running('other'), 6);
    assert.match(await control.ask('verify'), sound);
    await saved(node, 'other');
    assert.match(await control.ask('verify'), sound);
    await api.delete('other');
    await api.gone('other');
    await node.assertEnded();
    await meetComplaint(pinnedEventsPage);
    // The pages that it is about stay pinned.
    await loadGpu(options.gpu);
  });
  await step('a pod is evicted in the middle of a checkpoint', async () => {
    const long = newControl('long-one');
    const before = archives();
    await api.run({ name: 'long', control: long, command: longWorker });
    await kubelet.running('long');
    await long.ready(240);
    await slowly(async () => {
      const answer = kubelet.checkpoint('long').then(String, String);
      await inTheMiddleOf('dump');
      await api.evict('long');
      await api.gone('long');
      await answer;
    });
    await node.assertNothingLeft();
    assert.deepEqual(archives(), before);
  });
});
