/**
 * The guard of a lease: a process on the target that depends on no connection. When the lease is over and the source
 * has not given the container up, nothing runs here any more.
 */

import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '../errors.js';
import { stage } from '../stages.js';
import { momentNow } from './clock.js';
import { readRecord } from './journal.js';
import { guardCgroup, removeFiles, removeIfEmpty } from './leftovers.js';
import { type Places, placesBelow } from './places.js';
import { isOverAtTarget } from './protocol/lease.js';
import type { HostSetting } from './setting.js';
import { reopenByForce } from './takeover.js';

const stepMs = 500;
/** Between two attempts to end what must not run any longer. */
const againMs = 1000;

/** Watches until there is nothing to watch. `onArmed`: from now on. `log` gets lines of JSON. */
export async function watch(
  id: string,
  setting: HostSetting,
  onArmed: () => void,
  log: (line: string) => void,
): Promise<void> {
  const places = placesBelow(setting.root);
  const leave = await enterCgroup(id, setting.root);
  let tell = onArmed;
  try {
    for (;;) {
      const left = await leftOf(id, setting.root, places);
      stage('migrate-guard', 'looked');
      tell();
      tell = () => undefined;
      if (left === undefined) return;
      if (left <= 0) break;
      await delay(Math.min(left, stepMs));
    }
    stage('migrate-guard', 'over');
    while (!(await hasEnded(id, setting, log))) await delay(againMs);
    stage('migrate-guard', 'acted');
  } finally {
    await leave();
    await removeIfEmpty(places.guardLog(id)).catch(() => undefined);
  }
}

/** Milliseconds of the lease. undefined: nothing runs here under a lease. */
async function leftOf(id: string, root: string, places: Places): Promise<number | undefined> {
  const record = await readRecord(id, 'target', places.journal);
  if (record === undefined || !['ready', 'starting', 'resumed'].includes(record.phase))
    return undefined;
  const { deadline } = record;
  const now = await momentNow(root);
  return deadline === undefined || isOverAtTarget(deadline, now) ? 0 : deadline.ms - now.ms;
}

async function hasEnded(
  id: string,
  setting: HostSetting,
  log: (line: string) => void,
): Promise<boolean> {
  try {
    const { side, lock } = await reopenByForce(id, setting);
    log(JSON.stringify({ migration: id, msg: 'the lease is over', phase: side.phase }));
    if (side.phase === 'ended') await removeFiles(id, placesBelow(setting.root), setting.run);
    await (side.phase === 'ended' ? lock.remove() : lock.release());
    return true;
  } catch (error) {
    log(JSON.stringify({ migration: id, msg: 'cannot end it yet', err: describeError(error) }));
    return false;
  }
}

/**
 * Leaves the cgroup of the ssh session, which systemd may end as a whole (logind.conf(5), KillUserProcesses). Only
 * cgroup v2. Elsewhere the guard stays where it is.
 */
async function enterCgroup(id: string, root: string): Promise<() => Promise<void>> {
  const top = join(root, 'sys/fs/cgroup');
  const own = join(placesBelow(root).guardCgroups, guardCgroup(id));
  try {
    await mkdir(own, { recursive: true });
    await writeFile(join(own, 'cgroup.procs'), '0', { flag: 'r+' });
  } catch {
    return async () => undefined;
  }
  return async () => {
    await writeFile(join(top, 'cgroup.procs'), '0', { flag: 'r+' }).catch(() => undefined);
    await rmdir(own).catch(() => undefined);
  };
}
