/** Pods of a kubelet over CRI-O: its checkpoint interface, and a pod whose image is a checkpoint. */

import assert from 'node:assert/strict';
import { existsSync, rmSync } from 'node:fs';
import { until } from '../e2e/support/command.js';
import { counter } from '../e2e/support/container.js';
import { loadGpu } from '../e2e/support/gpu.js';
import { partTest } from '../e2e/support/part.js';
import { stepsOf } from '../e2e/support/steps.js';
import { assertNothingLeft, keepEvidence } from '../e2e/support/suite.js';
import { binary } from '../kubelet/support/binaries.js';
import { daemonLogs } from '../kubelet/support/daemon.js';
import { DevicePlugin } from '../kubelet/support/device-plugin.js';
import { forgetStaticPods, Kubelet } from '../kubelet/support/kubelet.js';
import { newControl } from '../kubelet/support/pod.js';
import { imageOf, setUp, socket, startCrio } from './support/crio.js';
import { devices, mayOpen, node, readers, sound } from './support/restored.js';

const skip = existsSync(binary('kubelet')) ? false : 'KUBELET=DIR with a kubelet was not given';
const image = 'localhost/saved-pod:latest';

partTest('a pod is saved, and its checkpoint is the image of another', { skip }, async (suite) => {
  await setUp();
  const crio = await startCrio();
  const kubelet = await Kubelet.start({ runtime: socket });
  const plugin = new DevicePlugin(1, 'nodes');
  const control = newControl('of-kubelet');
  const step = stepsOf(suite);
  const deleted = async (name: string) => {
    kubelet.delete(name);
    const gone = async () => (await kubelet.pod(name)) === undefined;
    await until(`the end of pod ${name}`, gone, 120, 250);
  };
  let archive = '';
  let counted = 0;
  try {
    await plugin.register();
    await step('the kubelet makes a checkpoint of a pod that goes on', async () => {
      kubelet.add({ name: 'saved', control });
      await kubelet.running('saved-lab');
      await control.ready(240);
      counted = counter(await control.ask('status'));
      const { status, body } = await kubelet.checkpoint('saved-lab');
      assert.equal(status, 200, body);
      [archive = ''] = (JSON.parse(body) as { items: string[] }).items;
      assert.match(await control.ask('verify'), sound);
      await deleted('saved');
    });
    await step('its archive is read, and becomes an image', async () => {
      await imageOf(archive, await readers(archive, 'crun'), image);
      rmSync(archive);
    });
    await step('a pod with that image continues it, and may use its GPU', async () => {
      kubelet.add({ name: 'again', control, image, annotations: devices, command: ['false'] });
      await kubelet.running('again-lab');
      const reply = await control.ask('verify');
      assert.match(reply, sound);
      assert.ok(counter(reply) >= counted, `${reply}: before, it was ${counted}`);
      assert.ok(await mayOpen(node));
      await deleted('again');
    });
    await step('nothing is left', () => assertNothingLeft());
  } catch (error) {
    await keepEvidence('kubelet over CRI-O', daemonLogs);
    throw error;
  } finally {
    plugin.stop();
    await kubelet.end();
    forgetStaticPods();
    await crio.end();
    await loadGpu();
  }
});
