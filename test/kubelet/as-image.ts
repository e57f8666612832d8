/** A checkpoint image is the image of a pod: containerd's own restore, with our shim beneath. */

import assert from 'node:assert/strict';
import { isOlder, parseVersion } from '../../src/runtime/versions.js';
import { run } from '../e2e/support/command.js';
import { image } from '../e2e/support/container.js';
import { nextRelease } from '../e2e/support/containerd.js';
import { noRegistry, Registry, registryHost } from '../e2e/support/registry.js';
import { importAsImage } from './support/checkpoint-image.js';
import { saved, sound } from './support/node.js';
import { onNode } from './support/on-node.js';
import { newControl } from './support/pod.js';
import { ctr } from './support/state.js';

/** containerd pulls the image of the saved container again, by its digest. */
const pulled = `${registryHost}/gpu-worker:latest`;
const asImage = 'localhost/saved-pod:latest';

/** containerd 2.4 has taken this way out ("cri: remove restore in CreateContainer"); the annotation stays. */
async function noRestoreByImage(): Promise<string | undefined> {
  const version = parseVersion(await run(`${nextRelease}/containerd`, '--version'));
  return version === undefined || isOlder(version, '2.4')
    ? undefined
    : `containerd ${version.text} restores no pod by its image`;
}

const skip = noRegistry ?? (await noRestoreByImage());

onNode('a checkpoint image is a pod’s image', { skip, byImage: true }, async (node, step) => {
  const { kubelet } = node;
  const control = newControl('pulled');
  const registry = await Registry.start();
  try {
    await step('a pod of a pulled image is saved', async () => {
      await ctr('image', 'tag', image, pulled);
      await ctr('image', 'push', '--plain-http', pulled);
      await ctr('image', 'rm', pulled);
      kubelet.add({ name: 'pulled', control, image: pulled, pull: true });
      await kubelet.running('pulled-lab');
      await control.ready(240);
      const archive = await saved(node, 'pulled-lab');
      await importAsImage(archive, asImage, 'job');
      assert.match(await control.ask('verify'), sound);
      await node.deleted('pulled');
    });
    await step('a pod with its checkpoint image continues', async () => {
      kubelet.add({ name: 'again', control, image: asImage, command: ['false'] });
      await kubelet.running('again-lab');
      assert.match(await control.ask('verify'), sound);
      await node.deleted('again');
    });
  } finally {
    await registry.stop();
  }
});
