/** `kfd-checkpoint sessions`: lists the running checkpoints, restores and migrations of all container engines. */

import { Command, Option } from 'commander';
import { KfdError } from '../errors.js';
import { SessionClient } from '../session/control/client.js';
import { removeDeadFolders, sessionPids } from '../session/control/folders.js';
import type { SessionStatus } from '../session/control/types.js';
import type { CommandContext } from './context.js';
import { duration, formatOption, json, rate, size, table } from './format.js';
import { migrationAsJson, migrationsOf, migrationsTable } from './migrations.js';

export function sessionsCommand({ out, err, signal }: CommandContext): Command {
  return new Command('sessions')
    .addOption(formatOption('table', 'json'))
    .addOption(rootOption())
    .action(async ({ root, format }: { root: string; format: 'table' | 'json' }) => {
      const { sessions, failures: first } = await sessionStatuses(root, signal);
      const { migrations, failures: more } = await migrationsOf(root, signal);
      const failures = [...first, ...more];
      if (format === 'json') {
        const moving = migrations.map(migrationAsJson);
        out(json({ schema_version: 1, sessions: sessions.map(statusAsJson), migrations: moving }));
      } else {
        const tables = [
          ...(sessions.length > 0 ? [sessionsTable(sessions)] : []),
          ...(migrations.length > 0 ? [migrationsTable(migrations)] : []),
        ];
        if (tables.length > 0) out(tables.join('\n'));
        else if (failures.length === 0) err('no checkpoint or restore is running\n');
      }
      // The other sessions are shown first, even if one is stopped and does not answer.
      if (failures.length > 0) throw failures[0];
    });
}

export const rootOption = () =>
  new Option('--root <dir>', 'read the system below this folder').default('/');

/** The status of every session, and the errors of sessions that did not answer. Ended sessions are left out. */
export async function sessionStatuses(root: string, signal: AbortSignal) {
  // Another root is looked at, not cleaned: its pids may be another host's.
  if (root === '/') removeDeadFolders();
  const requests = sessionPids(root).map((pid) =>
    SessionClient.with(root, pid, (client) => client.status(signal)),
  );
  const answers = await Promise.allSettled(requests);
  const sessions = answers.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
  const reasons = answers.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
  const isGone = (error: unknown) => error instanceof KfdError && error.code === 'E_NOT_FOUND';
  return { sessions, failures: reasons.filter((reason) => !isGone(reason)) };
}

const operations = new Map<string, string>([
  ['OPERATION_DUMP', 'checkpoint'],
  ['OPERATION_RESTORE', 'restore'],
]);

/** A newer session may have an operation that this program does not know. */
export function operationOf({ operation }: SessionStatus): string {
  return operations.get(operation) ?? 'unknown';
}

/** The phase, and the reason why the session waits in it. */
export function phaseOf({ phase, cancelled, files }: SessionStatus): string {
  if (cancelled) return `${phase}, cancelled`;
  const waits = files.some(({ waiting }) => waiting);
  if (waits) return `${phase}, waiting for memory`;
  return files.some(({ engine_reason }) => engine_reason) ? `${phase}, copied by the CPU` : phase;
}

/** Average rate of the contents, bytes per second. 0 before the first transfer. */
export function rateOf({ bytes_done: bytes, transfer_us: us }: SessionStatus): number {
  return us === 0 ? 0 : Math.round((bytes / us) * 1e6);
}

/** The JSON form: `checkpoint` and `restore` as operations, and no field without a value. */
export function statusAsJson(status: SessionStatus) {
  const { container_id, result, ...others } = status;
  return {
    ...others,
    operation: operationOf(status),
    bytes_per_s: rateOf(status),
    ...(container_id !== '' && { container_id }),
    ...(result !== null && { result }),
  };
}

export function sessionsTable(sessions: readonly SessionStatus[]): string {
  return table(
    ['PID', 'OPERATION', 'CONTAINER', 'PHASE', 'PROCESSES', 'DONE', 'TOTAL', 'RATE', 'TIME'],
    sessions.map((session) => [
      `${session.criu_pid}`,
      operationOf(session),
      session.container_id.slice(0, 12) || '-',
      phaseOf(session),
      `${session.processes}`,
      size(session.bytes_done),
      size(session.bytes_total),
      rate(rateOf(session)),
      duration(session.elapsed_us),
    ]),
  );
}
