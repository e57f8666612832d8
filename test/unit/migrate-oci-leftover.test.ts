/** What a podman that was killed in a restore leaves at its OCI runtime. */

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { endLeftover } from '../../src/migrate/oci-leftover.js';
import { PodmanContainer } from '../../src/migrate/podman.js';
import type { Run } from '../../src/os/exec.js';
import { temporaryFolder } from './paths.js';

const id = 'c0'.repeat(32);
const line = (point: string) =>
  `36 35 98:0 /mnt1 ${point} rw,noatime master:1 - ext3 /dev/root rw\n`;

/** A host with these mounts, where programs end with the status that `statusOf` has for their words. */
async function host(t: TestContext, points: readonly string[], statusOf = (_: string) => 0) {
  const root = await temporaryFolder(t);
  await mkdir(join(root, 'proc/self'), { recursive: true });
  await writeFile(join(root, 'proc/self/mountinfo'), points.map(line).join(''));
  const calls: string[] = [];
  const run: Run = async (command, args) => {
    const words = [command, ...args].join(' ');
    calls.push(words);
    return { status: statusOf(words), stdout: '', stderr: '' };
  };
  return { root, run, calls };
}

const deletes = [`crun delete --force ${id}`, `runc delete --force ${id}`];

test('its mounts go before the folder that they are in, and no others', async (t) => {
  const other = '0c'.repeat(32);
  const { root, run, calls } = await host(t, [
    '/',
    `/run/runc/${other}/criu-root`,
    `/run/my\\040runc/${id}/criu-root`,
    `/run/runc/${id}/criu-root/below`,
    `/var/lib/x/${id}/userdata/criu-root`,
  ]);
  await endLeftover(id, undefined, run, root);
  assert.deepEqual(calls, [
    `umount -l /run/my runc/${id}/criu-root`,
    `umount -l /var/lib/x/${id}/userdata/criu-root`,
    ...deletes,
  ]);
});

test('where a mount stays, the files in it do, too', async (t) => {
  const path = `/run/runc/${id}/criu-root`;
  const { root, run, calls } = await host(t, [path], () => 32);
  await assert.rejects(endLeftover(id, undefined, run, root), {
    code: 'E_HOST',
    hint: `umount ${path}`,
  });
  assert.deepEqual(calls, [`umount -l ${path}`]);
});

test('a container that is removed leaves nothing at its runtime', async (t) => {
  // podman-container-exists(1): 1 is "no".
  const statusOf = (words: string) => (/ (inspect|exists) /.test(words) ? 1 : 0);
  const { root, run, calls } = await host(t, [], statusOf);
  await new PodmanContainer(id, run, root).remove();
  assert.deepEqual(calls.slice(-2), deletes);
});
