/** Another process plays the target of a migration: the one before was killed, or hangs, or has lost its connection. */

import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../errors.js';
import { killHolder, Lock } from '../os/lock.js';
import type { ContainerState } from './engine.js';
import { engineOf } from './engines.js';
import { readRecord, type TargetRecord } from './journal.js';
import { sweepMs } from './leftovers.js';
import { type Places, placesBelow } from './places.js';
import { isOverAtTarget } from './protocol/lease.js';
import type { HostSetting } from './setting.js';
import { targetHost } from './target-host.js';
import { type TargetHost, TargetSide } from './target-side.js';
import type { Message } from './wire/messages.js';
import { Work } from './work.js';

/** Time for the process before to notice that its connection has gone. */
const graceMs = 2000;
const stepMs = 200;
/** For an answer of the engine when the lease is over: the source waits only LeaseTerms.marginMs longer. */
const stateMs = 10_000;

export interface Taken {
  readonly side: TargetSide;
  readonly lock: Lock;
}

/** Goes on with what is recorded. A container that is being started is waited for, as long as the lease lasts. */
export async function reopen(
  id: string,
  setting: HostSetting,
  say: (message: Message) => void,
): Promise<Taken> {
  const places = placesBelow(setting.root);
  const begun = performance.now();
  const isHung = async () => {
    const record = await readRecord(id, 'target', places.journal);
    // Without a record it may be another migration, which removes what this one has left.
    const patienceMs = record === undefined ? sweepMs : graceMs;
    return performance.now() - begun > patienceMs && record?.phase !== 'starting';
  };
  const lock = await lockOf(id, places, isHung);
  try {
    return { lock, side: await restarted(id, setting, say, places) };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** The same for the guard, when the lease is over: nothing is waited for. */
export async function reopenByForce(id: string, setting: HostSetting): Promise<Taken> {
  const places = placesBelow(setting.root);
  const lock = await lockOf(id, places, async () => true);
  try {
    return { lock, side: await restarted(id, setting, () => undefined, places, runsIfUnknown) };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function lockOf(id: string, places: Places, mayKill: () => Promise<boolean>): Promise<Lock> {
  const path = places.lock(id);
  for (;;) {
    const lock = await Lock.tryTake(path);
    if (lock !== undefined) return lock;
    if (await mayKill()) await killHolder(path);
    await delay(stepMs);
  }
}

/**
 * The lease is over. Where the engine cannot say in time what its container does, it counts as running: then it is
 * paused or removed, by the kernel where the engine does not answer.
 */
export async function runsIfUnknown(state: () => Promise<ContainerState>): Promise<ContainerState> {
  const limit = new AbortController();
  const late = delay(stateMs, 'runs' as const, { signal: limit.signal });
  late.catch(() => undefined);
  try {
    return await Promise.race([state(), late]);
  } catch {
    return 'runs';
  } finally {
    limit.abort();
  }
}

async function restarted(
  id: string,
  setting: HostSetting,
  say: (message: Message) => void,
  places: Places,
  lookAt: (state: () => Promise<ContainerState>) => Promise<ContainerState> = (state) => state(),
): Promise<TargetSide> {
  const record = (await readRecord(id, 'target', places.journal)) ?? ended(id);
  const host = targetHost(record, setting, say);
  const { deadline } = record;
  if (record.phase === 'starting' && deadline !== undefined) {
    const now = await host.now();
    const left = isOverAtTarget(deadline, now) ? 0 : deadline.ms - now.ms;
    const until = performance.now() + left;
    await new Work(places.work(id)).settle(() => performance.now() >= until);
  }
  const { container } = engineOf(record, setting);
  return goOn(record, host, () => lookAt(() => container.state()));
}

/** The side as it was recorded, when it has done what follows from the end of its process. */
export async function goOn(
  record: TargetRecord,
  host: TargetHost,
  stateOf: () => Promise<ContainerState>,
): Promise<TargetSide> {
  const side = new TargetSide(record, host);
  if (record.phase === 'ended') return side;
  const { container, deadline } = record;
  const state = await stateOf();
  const error = new KfdError('E_IO', `${container}: the process on the target has ended`, {
    hint: 'run the migration again; "journalctl -k" there may say why',
  });
  await side.post({
    type: 'restarted',
    container: state === 'stopped' ? 'none' : state,
    over: deadline === undefined || isOverAtTarget(deadline, await host.now()),
    error,
  });
  await side.idle();
  return side;
}

/** A migration without a record. */
export function ended(id: string): TargetRecord {
  return {
    schema_version: 1,
    id,
    side: 'target',
    phase: 'ended',
    container: 'the container',
    container_id: '0'.repeat(64),
    contents: '',
    lease_ms: 1,
  };
}
