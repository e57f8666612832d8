/** Containers through our shim that come and go: nothing of them may stay. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { run, until } from './command.js';
import { image } from './container.js';
import { bundlesLeft, ourRuntime, pipesLeft, shimsLeft, Task } from './containerd.js';

/** Containers at a time. */
const lanes = 2;
/** After so many, the proxy has opened what it opens once. */
const settling = 4;

const pod = ['--annotation', 'io.containerd.runc.v2.group=pod'];

async function present(): Promise<unknown> {
  return [(await shimsLeft()).sort(), bundlesLeft(), pipesLeft()];
}

/**
 * Runs `count` containers to their ends, half of them with shims of their own and half in a pod, which has one proxy
 * and one stock shim for all. Afterwards there are as many processes, sockets, pipes and bundles as before, and the
 * pod's proxy has no more descriptors.
 */
export async function cycles(count: number): Promise<void> {
  const flags = ['--runtime', ourRuntime];
  await run('ctr', 'run', '-d', ...flags, ...pod, image, 'pod', 'sleep', '1000000');
  const resident = new Task('pod');
  const before = await until('no process that has ended', async () => {
    const now = await present();
    return !JSON.stringify(now).includes('<defunct>') && now;
  });
  const { proxy } = resident.shims().pids;
  let serial = 0;
  const lane = async (end: number) => {
    while (serial < end) {
      const where = serial++ % 2 === 0 ? pod : [];
      await run('ctr', 'run', '--rm', ...flags, ...where, image, `cycle-${serial}`, 'true');
    }
  };
  /** Descriptors of the proxy once all is as before. */
  const after = async (end: number) => {
    await Promise.all(Array.from({ length: lanes }, () => lane(end)));
    const same = async () => isDeepStrictEqual(await present(), before);
    await until('all as before', same, 30).catch(async () =>
      assert.deepEqual(await present(), before),
    );
    return readdirSync(`/proc/${proxy}/fd`).length;
  };
  const settled = await after(settling);
  const grown = (await after(count)) - settled;
  assert.ok(grown <= 0, `${grown} more descriptors after ${count} containers`);
  await resident.remove();
}
