/** Migrations of this host, either side: those that run, and those whose process has ended before them. */

import { readdir } from 'node:fs/promises';
import { asKfdError, isMissing, KfdError } from '../errors.js';
import { statusAt } from '../migrate/control-client.js';
import { type JournalRecord, listRecords, readRecord } from '../migrate/journal.js';
import { type Places, placesBelow } from '../migrate/places.js';
import { leftUs, type MigrationStatus } from '../migrate/status.js';
import { duration, rate, size, table } from './format.js';

export interface Migration {
  readonly status: MigrationStatus;
  /** The socket of whoever plays it. undefined: nobody does. */
  readonly socket: string | undefined;
}

/** All of them, and the errors of those that did not answer. */
export async function migrationsOf(root: string, signal: AbortSignal) {
  const places = placesBelow(root);
  const running = await runningOf(places, signal);
  const failures = running.flatMap((one) => ('error' in one ? [one.error] : []));
  const found: Migration[] = running.flatMap((one) => ('error' in one ? [] : [one]));
  // A process that does not answer is there: its migration is not interrupted.
  const known = new Set(running.map(({ socket }) => socket));
  for (const { id, side } of await listRecords(places.journal)) {
    if (known.has(places.control(id, side))) continue;
    const record = await readRecord(id, side, places.journal).catch((error: unknown) => {
      failures.push(asKfdError(error, id));
    });
    if (record && !hasEnded(record)) found.push({ status: recorded(record), socket: undefined });
  }
  return { migrations: found, failures };
}

/** What the process at a socket has said, or why it has not. */
type Answer = { readonly socket: string } & (
  | { readonly status: MigrationStatus }
  | { readonly error: KfdError }
);

async function runningOf(places: Places, signal: AbortSignal): Promise<Answer[]> {
  const names = await readdir(places.run).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw asKfdError(error, places.run);
  });
  const sockets = names.flatMap((name) => {
    const [, id = '', side] = /^([0-9a-f]{32})\.(source|target)$/.exec(name) ?? [];
    return side === undefined ? [] : [places.control(id, side as JournalRecord['side'])];
  });
  const answers = await Promise.all(
    sockets.map((socket) =>
      statusAt(socket, signal).then(
        (status): Answer => ({ socket, status }),
        (error: unknown): Answer => ({ socket, error: asKfdError(error, socket) }),
      ),
    ),
  );
  // One that has ended meanwhile, or was killed.
  return answers.filter((one) => !('error' in one && one.error.code === 'E_NOT_FOUND'));
}

/** What is still recorded is only for a source that asks again, or is removed by the next command. */
function hasEnded({ phase }: JournalRecord): boolean {
  return phase === 'owned' || phase === 'done' || phase === 'returned';
}

function recorded(record: JournalRecord): MigrationStatus {
  const { id, side, container, container_id, host, phase } = record;
  const nothing = { elapsed_us: 0, bytes_done: 0, bytes_total: 0, bytes_per_s: 0 };
  const named = host === undefined ? {} : { host };
  const rest = { pid: 0, phase, ...nothing, cancelled: false, result: null };
  return { migration: id, side, container, container_id, ...named, ...rest };
}

/** The JSON form. No field without a value: without `pid` nobody plays it. */
export function migrationAsJson({ status }: Migration) {
  const { result, pid, ...others } = status;
  const left = leftUs(status);
  return {
    ...others,
    ...(pid !== 0 && { pid }),
    ...(left !== undefined && { left_us: left }),
    ...(result !== null && { result }),
  };
}

/** The phase, and what holds it up. */
export function migrationPhase({ phase, cancelled, pid }: MigrationStatus): string {
  if (pid === 0) return `${phase}, interrupted`;
  return cancelled ? `${phase}, cancelled` : phase;
}

/** Who moves where, as this host sees it. */
export function migrationSubject({ side, container, host }: MigrationStatus): string {
  return side === 'source' ? `migration of ${container} to ${host}` : `migration of ${container}`;
}

export function migrationsTable(migrations: readonly Migration[]): string {
  const heads = ['MIGRATION', 'SIDE', 'CONTAINER', 'HOST', 'PHASE'];
  return table(
    [...heads, 'DONE', 'TOTAL', 'RATE', 'LEFT', 'TIME'],
    migrations.map(({ status }) => {
      const left = leftUs(status);
      return [
        status.migration.slice(0, 12),
        status.side,
        status.container,
        status.host ?? '-',
        migrationPhase(status),
        size(status.bytes_done),
        size(status.bytes_total),
        rate(status.bytes_per_s),
        left === undefined ? '-' : duration(left),
        duration(status.elapsed_us),
      ];
    }),
  );
}

/** The one with this id, its beginning, or this container. Where both sides are here: the source. */
export function namedMigration(
  name: string,
  migrations: readonly Migration[],
): Migration | undefined {
  const isPart = /^[0-9a-f]{12,64}$/.test(name);
  const fitting = migrations.filter(
    ({ status: { container, container_id: containerId, migration } }) =>
      container === name ||
      (isPart && (migration.startsWith(name) || containerId.startsWith(name))),
  );
  const ids = new Set(fitting.map(({ status }) => status.migration));
  if (ids.size > 1) {
    throw new KfdError('E_USAGE', `${name}: several migrations: ${[...ids].join(', ')}`, {
      hint: 'name one by its id',
    });
  }
  return fitting.find(({ status }) => status.side === 'source') ?? fitting[0];
}
