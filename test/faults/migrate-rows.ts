/** The rows of migrations: who plays one, its connections, and podman on either side, at every point of it. */

import {
  type MigrateOperation,
  migrateEngines,
  type Row,
  type Signal,
  type Step,
  struck,
} from './row.js';
import type { Stage } from './stages/list.js';
import type { Victim } from './support/victims.js';

/** More steps come after the first. */
type Line = readonly [Stage, Victim, Signal, ...Step[]];

/** The restore there fails: the container goes on here. */
const failed = ['session-restore.ready', 'engine', 'SIGKILL'] as const;

const lines: readonly Line[] = [
  // Nothing has stopped yet.
  ['migrate-source.begun', 'source', 'SIGKILL'],
  ['migrate-source.begun', 'source', 'SIGTERM'],
  ['migrate-target.begun', 'target', 'SIGKILL'],
  ['migrate-target.begun', 'ssh', 'SIGKILL'],
  // The checkpoint.
  ['migrate-source.stopping', 'source', 'SIGKILL'],
  ['migrate-source.stopping', 'target', 'SIGTERM'],
  ['plugin-dump.paused', 'engine', 'SIGKILL'],
  ['plugin-dump.begun', 'engine', 'SIGSTOP'],
  ['session-dump.draining', 'source', 'SIGTERM'],
  ['session-dump.draining', 'source', 'SIGKILL'],
  ['session-dump.states', 'engine', 'SIGTERM'],
  ['session-dump.manifest', 'criu', 'SIGKILL'],
  ['migrate-source.stopped', 'source', 'SIGKILL'],
  ['migrate-source.stopped', 'target', 'SIGKILL'],
  // It is sent, the GPU contents while they are read.
  ['migrate-target.streaming', 'contents', 'SIGKILL'],
  ['migrate-target.streaming', 'contents', 'SIGSTOP'],
  ['migrate-target.streaming', 'source', 'SIGKILL'],
  ['migrate-target.streaming', 'target', 'SIGKILL'],
  ['migrate-target.taking', 'contents', 'SIGKILL'],
  ['migrate-target.taking', 'contents', 'SIGTERM'],
  ['migrate-target.taking', 'contents', 'SIGSTOP'],
  ['migrate-target.taking', 'source', 'SIGKILL'],
  ['migrate-source.sent', 'source', 'SIGSTOP'],
  ['migrate-source.sent', 'ssh', 'SIGKILL'],
  ['migrate-target.received', 'target', 'SIGKILL'],
  ['migrate-target.received', 'source', 'SIGTERM'],
  ['migrate-target.ready', 'target', 'SIGTERM'],
  ['migrate-guard.looked', 'guard', 'SIGKILL'],
  ['migrate-guard.looked', 'guard', 'SIGTERM'],
  ['migrate-guard.looked', 'guard', 'SIGSTOP'],
  // The target may run it.
  ['migrate-source.granted', 'source', 'SIGKILL'],
  ['migrate-source.granted', 'ssh', 'SIGTERM'],
  ['migrate-target.starting', 'target', 'SIGKILL'],
  ['migrate-target.starting', 'source', 'SIGKILL'],
  failed,
  ['plugin-restore.restoring', 'engine', 'SIGTERM'],
  ['session-restore.gate', 'source', 'SIGKILL'],
  ['session-restore.resumed', 'target', 'SIGSTOP'],
  ['migrate-target.started', 'target', 'SIGKILL'],
  ['migrate-target.resumed', 'target', 'SIGKILL'],
  ['migrate-target.resumed', 'ssh', 'SIGKILL'],
  ['migrate-target.resumed', 'source', 'SIGSTOP'],
  // Its lease is over.
  ['migrate-guard.over', 'guard', 'SIGSTOP'],
  ['migrate-guard.over', 'target', 'SIGKILL'],
  ['migrate-guard.acted', 'guard', 'SIGKILL'],
  ['migrate-target.doubt', 'source', 'SIGKILL'],
  // It is the target's.
  ['migrate-source.given', 'source', 'SIGKILL'],
  ['migrate-source.given', 'target', 'SIGKILL'],
  ['migrate-source.given', 'ssh', 'SIGSTOP'],
  ['migrate-target.owned', 'target', 'SIGKILL'],
  ['migrate-target.owned', 'source', 'SIGTERM'],
  ['migrate-source.done', 'source', 'SIGKILL'],
  ['migrate-target.settled', 'target', 'SIGKILL'],
  // It is brought back.
  [...failed, struck('source', 'migrate-source.returning')],
  [...failed, struck('source', 'migrate-source.returned')],
  [...failed, struck('target', 'migrate-target.ended')],
];

/** A round and memory ahead, while the container runs. */
const ahead: readonly Line[] = [
  ['plugin-dump.paused', 'source', 'SIGKILL'],
  ['session-dump.draining', 'engine', 'SIGKILL'],
  ['session-dump.manifest', 'session', 'SIGKILL'],
  ['migrate-target.ahead', 'contents', 'SIGKILL'],
  ['migrate-target.ahead', 'contents', 'SIGSTOP'],
  ['migrate-target.ahead', 'source', 'SIGKILL'],
  ['migrate-target.ahead', 'source', 'SIGTERM'],
  ['migrate-target.ahead', 'target', 'SIGKILL'],
  ['migrate-target.memory', 'contents', 'SIGKILL'],
  ['migrate-target.memory', 'source', 'SIGKILL'],
  ['migrate-target.memory', 'target', 'SIGKILL'],
  ['migrate-target.streaming', 'contents', 'SIGKILL'],
  ['migrate-target.streaming', 'source', 'SIGKILL'],
  ['migrate-source.stopped', 'source', 'SIGKILL'],
  failed,
  // Podman 6 has frozen it for the round, and goes before CRIU's end.
  ['plugin-dump.paused', 'runtime', 'SIGKILL'],
  ['plugin-dump.paused', 'runtime', 'SIGTERM'],
];

const rowsOf = (operation: MigrateOperation, all: readonly Line[]) =>
  all.map(
    ([stage, victim, signal, ...more], index): Row => ({
      operation,
      engine: migrateEngines[index % 2 === 0 ? 0 : 1],
      steps: [struck(victim, stage, signal), ...more],
    }),
  );

export const migrateRows: readonly Row[] = [
  ...rowsOf('migrate', lines),
  ...rowsOf('migrate-ahead', ahead),
];
