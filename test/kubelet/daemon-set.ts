/** deploy/kubernetes in a cluster with a scheduler and controllers: it sets a node up, and undoes that at its end. */

import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { run, until } from '../e2e/support/command.js';
import { nextRelease } from '../e2e/support/containerd.js';
import { noControllers } from './support/binaries.js';
import { emptyConfig, saved, sound, unpacked } from './support/node.js';
import { onNode } from './support/on-node.js';
import { newControl } from './support/pod.js';
import { daemonSet, importDaemonImage, samplePod } from './support/samples.js';

const namespace = 'kfd-checkpoint';
const program = '/usr/local/bin/kfd-checkpoint';
const ownConfig = '/etc/containerd/config.toml';

/** In place of systemd, which this guest has not: containerd is no unit of it. */
const systemctl = '/usr/local/bin/systemctl';
const asked = '/run/asked-of-systemctl';

/** The one that this node runs is not in PATH, but an older one is, whose release decides what is written. */
const containerd = '/usr/local/bin/containerd';

function standIn(): void {
  mkdirSync('/usr/local/bin', { recursive: true });
  symlinkSync(`${nextRelease}/containerd`, containerd);
  writeFileSync(systemctl, `#!/bin/sh\necho "$*" >>${asked}\n`);
  chmodSync(systemctl, 0o755);
}

const isAsked = () =>
  existsSync(asked) && /^restart .*containerd\.service$/m.test(readFileSync(asked, 'utf8'));

onNode('the DaemonSet', { bare: true, skip: noControllers }, async (node, step) => {
  const { api, kubelet } = node;
  const control = newControl('sample');
  const objects = daemonSet();
  const first = samplePod('pod.yaml', control);
  const again = samplePod('restored-pod.yaml', control);
  const restartIfAsked = async () => {
    await until('a restart of containerd', isAsked, 240, 250);
    rmSync(asked);
    await node.restartContainerd();
  };
  try {
    standIn();
    await step('it sets the node up, and containerd is restarted once', async () => {
      await importDaemonImage();
      await api.apply(...objects);
      await restartIfAsked();
      const runs = async () =>
        (await api.podsIn(namespace)).some(
          ({ status }) => status.phase === 'Running' && status.containerStatuses?.[0]?.ready,
        );
      await until('the pod of the DaemonSet', runs, 240, 500);
      assert.ok(existsSync(program));
      assert.match(readFileSync(ownConfig, 'utf8'), /runtimes\.kfd\]/);
      assert.ok(!isAsked());
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
      await restartIfAsked();
      const gone = async () => (await api.podsIn(namespace)).length === 0;
      await until('the end of the pod of the DaemonSet', gone, 240, 500);
      assert.ok(!existsSync(program));
      assert.equal(readFileSync(ownConfig, 'utf8'), emptyConfig);
    });
  } finally {
    for (const path of [systemctl, containerd]) rmSync(path, { force: true });
    rmSync('/var/lib/kfd-images', { recursive: true, force: true });
  }
});
