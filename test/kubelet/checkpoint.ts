/** The kubelet's checkpoint interface, who reads its archives, and pods that are restored from them. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { attempt, run } from '../e2e/support/command.js';
import { counter } from '../e2e/support/container.js';
import { checkpoints } from './support/kubelet.js';
import { archives, saved, sound, unpacked } from './support/node.js';
import { onNode } from './support/on-node.js';
import { newControl, restoreFrom } from './support/pod.js';
import { firstPid } from './support/state.js';

/** What administrators look with. */
async function readers(archive: string): Promise<void> {
  assert.match(await run('checkpointctl', 'show', archive), /\bjob\b.*\brunc\b.*\bcontainerd\b/i);
  const inspected = JSON.parse(await run('kfd-checkpoint', 'inspect', '--format', 'json', archive));
  assert.deepEqual([inspected.gpu_state, inspected.engine], ['sealed', 'containerd']);
  assert.equal(inspected.processes[0].comm, 'gpu-worker');
  assert.ok(inspected.buffers.vram.size >= 16 << 20);
  await run('kfd-checkpoint', 'verify', '--quiet', archive);
  const refused = await attempt('kfd-checkpoint', 'restore', archive);
  assert.match(`${refused.status} ${refused.stderr}`, /^2 .*podman cannot restore it/);
}

onNode('a pod is saved and comes back', {}, async (node, step) => {
  const { kubelet } = node;
  const control = newControl('saved');
  let archive = '';
  let counted = 0;
  await step('a pod gets its GPU from the device plugin', async () => {
    kubelet.add({ name: 'saved', control });
    const container = await kubelet.running('saved-lab');
    await control.ready(240);
    const cgroup = readFileSync(`/proc/${await firstPid(container)}/cgroup`, 'utf8');
    assert.match(cgroup, /kubepods/);
  });
  await step('the kubelet makes checkpoints of a pod that goes on', async () => {
    await saved(node, 'saved-lab');
    counted = counter(await control.ask('status'));
    archive = await saved(node, 'saved-lab');
    assert.equal(archives().length, 2, archives().join(' '));
    assert.ok(archives().every((name) => archive !== name && /\.tar$/.test(name)));
  });
  await step('checkpointctl and kfd-checkpoint read the archive', () => readers(archive));
  await step('a pod with the annotation continues what the archive has', async () => {
    assert.match(await control.ask('verify'), sound);
    await node.deleted('saved');
    const check = await run('kfd-checkpoint', 'check', archive);
    assert.match(check, /pod with the annotation io\.kfd-checkpoint\.restore-from=/);
    const image = await unpacked(archive, '/tmp/unpacked');
    kubelet.add({ name: 'again', control, annotations: restoreFrom(image), command: ['false'] });
    const container = await kubelet.running('again-lab');
    const reply = await control.ask('verify');
    assert.match(reply, sound);
    assert.ok(counter(reply) >= counted, `${reply}: before, it was ${counted}`);

    process.kill(await firstPid(container), 'SIGKILL');
    await kubelet.running('again-lab', container);
    assert.match(await control.ask('verify'), sound);
    const cgroup = readFileSync(
      `/proc/${await firstPid(await kubelet.running('again-lab'))}/cgroup`,
      'utf8',
    );
    assert.match(cgroup, /kubepods/);
  });
  await step('the restored pod is saved, too', async () => {
    const second = await saved(node, 'again-lab');
    await run('kfd-checkpoint', 'verify', '--quiet', join(checkpoints, basename(second)));
  });
  await node.deleted('again');
});
