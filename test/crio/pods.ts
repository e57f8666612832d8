/** A container with a GPU in a pod of CRI-O: saved while it goes on, and restored in another pod. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { attempt, run } from '../e2e/support/command.js';
import { Control, counter, type Engine, engines } from '../e2e/support/container.js';
import { Pod } from '../e2e/support/cri.js';
import { loadGpu } from '../e2e/support/gpu.js';
import { partTest } from '../e2e/support/part.js';
import { stepsOf } from '../e2e/support/steps.js';
import { assertNothingLeft, keepEvidence } from '../e2e/support/suite.js';
import { daemonLogs } from '../kubelet/support/daemon.js';
import {
  devicesAnnotation,
  imageOf,
  socket,
  startCrio,
  writeConfiguration,
} from './support/crio.js';

const hook = '/usr/share/containers/oci/hooks.d/50-kfd-checkpoint.json';
const worker = ['gpu-worker', '--vram-mib', '16', '--pending-barrier'];
const sound = /^verified .*barrier=completed/;
const node = '/dev/dri/renderD128';
/** CRI-O gives a restored container no devices of its pod, so the pod has to name them. CRIU makes the nodes. */
const devices = {
  [devicesAnnotation]: ['/dev/kfd', node].map((one) => `${one}:${one}:rwm`).join(','),
};

/** Whether the rules for devices let the only worker open `path`, asked by a process in the same cgroup. */
async function mayOpen(path: string): Promise<boolean> {
  const pid = await run('pgrep', '-x', 'gpu-worker');
  const [, cgroup = ''] = /^0::(.*)$/m.exec(readFileSync(`/proc/${pid}/cgroup`, 'utf8')) ?? [];
  const script = 'echo $$ >"$0" && exec 3<>"$1"';
  const { status, stderr } = await attempt(
    'sh',
    '-c',
    script,
    `/sys/fs/cgroup${cgroup}/cgroup.procs`,
    path,
  );
  assert.ok(status === 0 || /Operation not permitted/.test(stderr), stderr);
  return status === 0;
}

/**
 * runc restores into the cgroup that the container had where it was saved, and finds nothing to freeze in that of the
 * new one. It is so without a GPU, too (runc 1.1.15).
 */
const savesAgain = (runtime: Engine) => runtime !== 'runc';

/** A kubelet always gives it. CRI-O adds it by itself, and wants it for a restore then. */
const mounts = [{ container_path: '/etc/hosts', host_path: '/etc/hosts' }];

/** What administrators look with; the annotation that makes an image of it one of a checkpoint. */
async function readers(archive: string, runtime: string): Promise<string> {
  const inspected = JSON.parse(await run('kfd-checkpoint', 'inspect', '--format', 'json', archive));
  assert.deepEqual(
    [inspected.gpu_state, inspected.engine, inspected.container_name, inspected.runtime],
    ['sealed', 'CRI-O', 'job', runtime],
  );
  await run('kfd-checkpoint', 'verify', '--quiet', archive);
  const refused = await attempt('kfd-checkpoint', 'restore', archive);
  assert.match(`${refused.status} ${refused.stderr}`, /^2 .*podman cannot restore it/);
  const checked = await attempt('kfd-checkpoint', 'check', '--format', 'json', archive);
  const report = JSON.parse(checked.stdout);
  assert.equal(report.restorable, true, checked.stdout);
  const [annotation] = report.steps
    .flat()
    .filter((word: string) => word.startsWith('--annotation'));
  return annotation.replace('--annotation=', '');
}

for (const runtime of engines) {
  partTest(`a pod is saved and comes back (${runtime})`, {}, async (suite) => {
    if (!existsSync('/etc/crio')) {
      assert.ok(existsSync(hook), 'podman has its hook, with which CRI-O does not start');
      writeConfiguration();
      await assert.rejects(startCrio(), /has ended/);
      assert.match(
        readFileSync(join(daemonLogs, 'crio.log'), 'utf8'),
        /unknown stage \W*precreate/,
      );
      await run('kfd-checkpoint', 'configure');
    }
    const crio = await startCrio();
    const control = new Control(`crio-${runtime}`);
    mkdirSync(control.folder, { recursive: true });
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
