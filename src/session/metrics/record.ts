/** Adds a session that has ended to the file of counters. */

import { promises } from 'node:fs';
import { dirname } from 'node:path';
import { KfdError } from '../../errors.js';
import type { Logger } from '../../log.js';
import { readTextIfAny, replaceFile } from '../../os/files.js';
import { Lock } from '../../os/lock.js';
import { Counters, maxBytes } from './counters.js';

/** Of all sessions of the host: they add to one file. purge.sh has the path, too. */
const lockPath = '/run/kfd-checkpoint.metrics';
/** How long to wait for other sessions, milliseconds. Each has the lock for the time of one small file. */
const waitMs = 10_000;

export interface EndedSession {
  readonly operation: 'checkpoint' | 'restore';
  readonly outcome: string;
  readonly success: boolean;
  /** Of its error; empty without one. */
  readonly code: string;
  readonly contentBytes: number;
  /** Microseconds per phase, and `total`. */
  readonly timingsUs: Readonly<Record<string, number>>;
}

/**
 * Never throws: counters that cannot be written are a line of the log. `lock` and `now`, milliseconds since 1970, are
 * for tests.
 */
export async function recordSession(
  file: string,
  session: EndedSession,
  log: Pick<Logger, 'warn'>,
  { lock = lockPath, now = Date.now() } = {},
): Promise<void> {
  try {
    await assertFolder(file);
    const until = performance.now() + waitMs;
    const taken = await Lock.take(lock, () => performance.now() > until);
    if (taken === undefined) throw new KfdError('E_TIMEOUT', `${lock}: another session has it`);
    try {
      const counters = await readCounters(file, log);
      addTo(counters, session, now);
      await replaceFile(file, counters.toString());
    } finally {
      await taken.release();
    }
  } catch (err) {
    log.warn({ err }, 'the session is not counted');
  }
}

/** A folder that we would make could not be read by others: a session's umask is 077. Throws E_IO. */
async function assertFolder(file: string): Promise<void> {
  const folder = dirname(file);
  const found = await promises.stat(folder).catch(() => undefined);
  if (found?.isDirectory()) return;
  throw new KfdError('E_IO', `${folder}: no such folder`, {
    hint: `make it, readable for the collector: run "mkdir -m 755 ${folder}"`,
  });
}

/** A file that nobody of ours has written is replaced: it would be lost for the collector, too. */
async function readCounters(file: string, log: Pick<Logger, 'warn'>): Promise<Counters> {
  try {
    const counters = Counters.parse((await readTextIfAny(file, maxBytes)) ?? '');
    if (counters !== undefined) return counters;
    log.warn({ file, reason: 'it is damaged' }, 'counters begin anew');
  } catch (error) {
    if (!(error instanceof KfdError)) throw error;
    log.warn({ file, reason: error.message }, 'counters begin anew');
  }
  return new Counters();
}

function addTo(counters: Counters, session: EndedSession, now: number): void {
  const { operation, outcome, success, code, contentBytes, timingsUs } = session;
  counters.add('kfd_checkpoint_sessions_total', { operation, outcome }, 1);
  if (!success) {
    counters.add('kfd_checkpoint_failures_total', { operation, code: code || 'unknown' }, 1);
  }
  counters.add('kfd_checkpoint_content_bytes_total', { operation }, contentBytes);
  for (const [phase, us] of Object.entries(timingsUs)) {
    if (phase === 'total') continue; // it is their sum
    counters.addMicroseconds('kfd_checkpoint_phase_seconds_total', { operation, phase }, us);
  }
  const labels = { operation, success: String(success) };
  counters.set('kfd_checkpoint_last_session_timestamp_seconds', labels, Math.floor(now / 1000));
}
