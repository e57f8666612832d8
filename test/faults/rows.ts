/**
 * The table: every operation with every point it comes to, each with the victim that the operation has met least, and
 * the signal that this victim has met least.
 */

import { engines } from '../e2e/support/container.js';
import { containerdRows } from './containerd-rows.js';
import { namedRows } from './cross-section.js';
import { migrateRows } from './migrate-rows.js';
import { momentsOf } from './moments.js';
import { operations, type PodmanOperation } from './operations.js';
import {
  type Condition,
  nameOf,
  plainEngines,
  plainOperations,
  type Row,
  type Signal,
  type Step,
  signals,
  struck,
} from './row.js';
import type { Stage } from './stages/list.js';
import type { Victim } from './support/victims.js';

/** A signal that stays pending comes back with the container: only SIGKILL has one meaning for its process. */
function signalsFor(victim: Victim): readonly Signal[] {
  return victim === 'task' ? ['SIGKILL'] : signals;
}

const used = new Map<string, number>();

function rarest(names: readonly string[]): string {
  // SIGKILL is twice as likely: the others can be answered.
  const times = (name: string) => (used.get(name) ?? 0) / (name.endsWith('/SIGKILL') ? 2 : 1);
  const [best = ''] = names.toSorted((a, b) => times(a) - times(b));
  used.set(best, (used.get(best) ?? 0) + 1);
  return best;
}

function signalRows(operation: PodmanOperation): Row[] {
  return momentsOf[operation].map(({ stage, victims }) => {
    const pairs = victims.flatMap((victim) =>
      signalsFor(victim).map((signal) => `${operation}/${victim}/${signal}`),
    );
    // First the victims that the operation has met least, then their signals.
    const victim = rarest(victims.map((one) => `${operation}/${one}`)).split('/')[1] as Victim;
    const mine = pairs.filter((pair) => pair.startsWith(`${operation}/${victim}/`));
    const signal = rarest(mine.map((pair) => pair.replace(`${operation}/`, ''))).split('/')[1];
    const engine = rarest(engines.map((one) => `${one}/${operation}`)).split('/')[0];
    return {
      operation,
      engine: engine as Row['engine'],
      steps: [{ stage, fault: { victim, signal: signal as Signal } }],
    };
  });
}

type Wrong = readonly [PodmanOperation, Stage | undefined, Condition, ...Step[]];

const wrongs: readonly Wrong[] = [
  ['export', undefined, 'log full'],
  ['export', 'plugin-dump.paused', 'log full', struck('criu', 'plugin-dump.begun')],
  ['export', undefined, 'run full'],
  ['import', undefined, 'run full'],
  ['export', undefined, 'archive full'],
  ['leave', undefined, 'archive full'],
  ['export', undefined, 'image full'],
  ['export', 'session-dump.draining', 'image full'],
  ['place', 'session-dump.draining', 'image full soon'],
  ['place', 'session-dump.gate', 'image full'],
  ['place', 'session-dump.states', 'image full'],
  ['place', 'session-dump.manifest', 'image full'],
  ['place', 'session-dump.sealed', 'image full'],
  ['leave', 'session-dump.unsealed', 'image full'],
  ['leave', 'session-dump.finishing', 'image full'],
  ['import', undefined, 'image full'],
  ['import-parent', undefined, 'tmp full'],
  ['place', undefined, 'image EIO'],
  ['place', 'session-dump.draining', 'image EIO'],
  ['export', 'session-dump.draining', 'session without memory'],
  ['leave', 'session-dump.resumed', 'session without memory'],
  ['import', 'plugin-restore.restoring', 'session without memory'],
  ['export', 'plugin-dump.surveyed', 'kernel without memory'],
  ['export', 'plugin-dump.surveyed', 'kernel without memory later'],
  ['import', 'plugin-restore.restoring', 'kernel without memory'],
  ['restore-place', 'session-restore.resuming', 'kernel without memory'],
  ['export', 'session-dump.ready', 'session without descriptors'],
  ['place', 'session-dump.draining', 'session without descriptors'],
  ['import', 'session-restore.ready', 'session without descriptors'],
  ['import', 'session-restore.gate', 'session without descriptors'],
  ['export', 'session-dump.draining', 'clock back'],
  ['leave', undefined, 'clock back'],
  ['import', 'session-restore.ready', 'clock back'],
  ['restore-place', 'session-restore.gate', 'clock back'],
  ['export', undefined, 'etc read-only'],
  ['import', undefined, 'etc read-only'],
  ['place', undefined, 'var read-only'],
  ['restore-place', undefined, 'var read-only'],
  ['export', 'plugin-dump.begun', 'cancelled', struck('session', 'session-dump.failed')],
  ['leave', 'plugin-dump.begun', 'cancelled', struck('criu', 'session-dump.failed')],
  ['import', 'transfer.upload', 'cancelled', struck('session', 'session-restore.releasing')],
  ['restore-place', 'plugin-restore.mapped', 'cancelled', struck('criu', 'session-restore.failed')],
];

function wrongRow([operation, stage, fault, ...more]: Wrong, index: number): Row {
  const first: Step = stage === undefined ? { fault } : { stage, fault };
  return { operation, engine: engines[index % 2 === 0 ? 0 : 1], steps: [first, ...more] };
}

export const podmanRows: readonly Row[] = [
  ...(Object.keys(operations) as PodmanOperation[]).flatMap(signalRows),
  ...wrongs.map(wrongRow),
];

/** The signals that showed others' failures, without this product. */
export const controlRows: readonly Row[] = plainOperations.flatMap((operation) =>
  plainEngines.flatMap((engine) =>
    (['criu', 'runtime', 'engine', 'conmon'] as const).map((victim) => ({
      operation,
      engine,
      steps: [{ fault: { victim, signal: 'SIGKILL' as const } }],
    })),
  ),
);

/** All whose names match, or `count` of those that are no controls, spread over the table. */
export function chosen(names: RegExp, count?: number): readonly Row[] {
  const table = [...podmanRows, ...containerdRows, ...migrateRows];
  const known = new Set(table.map(nameOf));
  const more = namedRows.filter((row) => !known.has(nameOf(row)));
  const all = [...table, ...more, ...(count === undefined ? controlRows : [])];
  const rows = all.filter((row) => names.test(nameOf(row)));
  const share = (index: number) => Math.floor((index * (count ?? rows.length)) / rows.length);
  return rows.filter((_, index) => share(index + 1) > share(index));
}
