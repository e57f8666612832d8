/** A container with a GPU in a pod of CRI-O: saved while it goes on, and restored in another pod. */

import assert from 'node:assert/strict';
import { counter, type Engine, engines } from '../e2e/support/container.js';
import { Pod } from '../e2e/support/cri.js';
import { loadGpu } from '../e2e/support/gpu.js';
import { partTest } from '../e2e/support/part.js';
import { stepsOf } from '../e2e/support/steps.js';
import { assertNothingLeft, keepEvidence } from '../e2e/support/suite.js';
import { daemonLogs } from '../kubelet/support/daemon.js';
import { newControl, worker } from '../kubelet/support/pod.js';
import { imageOf, setUp, socket, startCrio } from './support/crio.js';
import { devices, mayOpen, node, readers, sound } from './support/restored.js';

/**
 * runc restores into the cgroup that the container had where it was saved, and finds nothing to freeze in that of the
 * new one. It is so without a GPU, too (runc 1.1.15).
 */
const savesAgain = (runtime: Engine) => runtime !== 'runc';

/** A kubelet always gives it. CRI-O adds it by itself, and wants it for a restore then. */
const mounts = [{ container_path: '/etc/hosts', host_path: '/etc/hosts' }];

for (const runtime of engines) {
  partTest(`a pod is saved and comes back (${runtime})`, {}, async (suite) => {
    await setUp();
    const crio = await startCrio();
    const control = newControl(`crio-${runtime}`);
    const archive = `/tmp/crio-${runtime}.tar`;
    const image = `localhost/saved-${runtime}:latest`;
    const start = (name: string, annotations = {}) => Pod.start(name, runtime, annotations, socket);
    const step = stepsOf(suite);
    let counted = 0;
    try {
      await step('a container goes on after its checkpoint', async () => {
        const pod = await start(`${runtime}-first`);
        const job = await pod.run('job', control.folder, worker, { mounts });
        await control.ready();
        counted = counter(await control.ask('status'));
        await pod.checkpoint(job, archive);
        assert.match(await control.ask('verify'), sound);
        await pod.remove(job);
        await pod.end();
      });
      await step('its archive is read, and becomes an image', async () => {
        await imageOf(archive, await readers(archive, runtime), image);
      });
      const again = async (name: string, from: string, annotations = {}) => {
        const pod = await start(`${runtime}-${name}`, annotations);
        const job = await pod.run('job', control.folder, ['false'], { from, mounts });
        const reply = await control.ask('verify');
        assert.match(reply, sound);
        assert.ok(counter(reply) >= counted, `${reply}: before, it was ${counted}`);
        const opens = await mayOpen(node);
        if (savesAgain(runtime)) {
          await pod.checkpoint(job, `/tmp/crio-${runtime}-again.tar`);
          assert.match(await control.ask('verify'), sound);
        }
        await pod.remove(job);
        await pod.end();
        return opens;
      };
      await step('a pod that names the image continues it', async () => {
        // CRIU makes the cgroup for runc, without rules for devices.
        assert.equal(await again('image', image), runtime === 'runc');
      });
      await step('a pod that names the archive and the nodes may open them', async () => {
        assert.equal(await again('archive', archive, devices), true);
      });
      await step('nothing is left', () => assertNothingLeft());
    } catch (error) {
      await keepEvidence(`pods (${runtime})`, daemonLogs);
      throw error;
    } finally {
      await crio.end();
      await loadGpu();
    }
  });
}
