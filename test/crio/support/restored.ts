/** What is to be known of an archive of CRI-O, and of the container that continues it. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { attempt, run } from '../../e2e/support/command.js';
import { devicesAnnotation } from './crio.js';

/** What a program answers whose contents are right, and whose dispatch was finished after a restore. */
export const sound = /^verified .*barrier=completed/;

export const node = '/dev/dri/renderD128';
/** CRI-O gives a restored container no devices of its pod, so the pod has to name them. CRIU makes the nodes. */
export const devices = {
  [devicesAnnotation]: ['/dev/kfd', node].map((one) => `${one}:${one}:rwm`).join(','),
};

/** Whether the rules for devices let the only worker open `path`, asked by a process in the same cgroup. */
export async function mayOpen(path: string): Promise<boolean> {
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

/** What administrators look with; the annotation that makes an image of it one of a checkpoint. */
export async function readers(archive: string, runtime: string): Promise<string> {
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
