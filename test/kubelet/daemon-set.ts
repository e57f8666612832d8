/** deploy/kubernetes in a cluster with a scheduler and controllers: it sets a node up, and undoes that at its end. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { run, until } from '../e2e/support/command.js';
import { nextRelease } from '../e2e/support/containerd.js';
import { underSystemd } from '../e2e/support/guest.js';
import type { Step } from '../e2e/support/steps.js';
import { noControllers } from './support/binaries.js';
import { type Restarts, StandInRestarts } from './support/containerd-unit.js';
import { type Node, ownConfig, ownConfigPath, saved, sound, unpacked } from './support/node.js';
import { onNode } from './support/on-node.js';
import { newControl } from './support/pod.js';
import { daemonSet, importDaemonImage, samplePod } from './support/samples.js';

const namespace = 'kfd-checkpoint';
const program = '/usr/local/bin/kfd-checkpoint';

/** The one that this node runs is not in PATH, but an older one is, whose release decides what is written. */
const containerd = '/usr/local/bin/containerd';

onNode('the DaemonSet', { bare: true, skip: noControllers }, async (node, step) => {
  const body = (restarts: Restarts) => comesAndGoes(node, step, restarts);
  try {
    mkdirSync('/usr/local/bin', { recursive: true });
    symlinkSync(`${nextRelease}/containerd`, containerd);
    await (underSystemd
      ? node.asUnit(body)
      : StandInRestarts.during(() => node.restartContainerd(), body));
  } finally {
    rmSync(containerd, { force: true });
    rmSync('/var/lib/kfd-images', { recursive: true, force: true });
  }
});

async function comesAndGoes(node: Node, step: Step, restarts: Restarts): Promise<void> {
  const { api, kubelet } = node;
  const control = newControl('sample');
  const objects = daemonSet();
  const first = samplePod('pod.yaml', control);
  const again = samplePod('restored-pod.yaml', control);
  await step('it sets the node up, and containerd is restarted once', async () => {
    await importDaemonImage();
    await api.apply(...objects);
    await restarts.next();
    const runs = async () =>
      (await api.podsIn(namespace)).some(
        ({ status }) => status.phase === 'Running' && status.containerStatuses?.[0]?.ready,
      );
    await until('the pod of the DaemonSet', runs, 240, 500);
    assert.ok(existsSync(program));
    assert.match(readFileSync(ownConfigPath, 'utf8'), /runtimes\.kfd\]/);
    assert.ok(!(await restarts.isDue()));
  });
  await step('the example pod is saved', async () => {
    await api.apply(first);
    await kubelet.running('trainer');
    await control.ready(240);
    const archive = await saved(node, 'trainer', 'trainer');
    await api.delete('trainer');
    await api.gone('trainer');
    await run('mkdir', '-p', '/var/lib/kfd-images');
    await unpacked(archive, '/var/lib/kfd-images/trainer');
  });
  await step('the other example pod continues it', async () => {
    await api.apply(again);
    await kubelet.running('trainer-again');
    assert.match(await control.ask('verify'), sound);
    await api.delete('trainer-again');
    await api.gone('trainer-again');
  });
  await step('the node is as before when the DaemonSet is deleted', async () => {
    for (const object of objects.filter(({ kind }) => kind === 'DaemonSet')) {
      await api.withdraw(object);
    }
    await restarts.next();
    const gone = async () => (await api.podsIn(namespace)).length === 0;
    await until('the end of the pod of the DaemonSet', gone, 240, 500);
    assert.ok(!existsSync(program));
    assert.equal(readFileSync(ownConfigPath, 'utf8'), ownConfig);
  });
}
