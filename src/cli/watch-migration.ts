/** Follows a migration to its end, on either side. */

import { KfdError } from '../errors.js';
import { watchAt } from '../migrate/control-client.js';
import { leftUs, type MigrationStatus } from '../migrate/status.js';
import type { Chosen } from './chosen.js';
import type { CommandContext } from './context.js';
import { duration, jsonLine } from './format.js';
import { migrationAsJson, migrationPhase, migrationSubject } from './migrations.js';
import type { Progress } from './progress.js';
import { type Step, shownIn } from './watch-step.js';

type Watched = Extract<Chosen, { readonly kind: 'migration' }>;

/** Returns what throws the error of a migration that has failed. */
export async function watchMigration(
  { socket, status: first }: Watched,
  format: 'text' | 'json',
  context: CommandContext,
  progress: Progress,
): Promise<() => void> {
  const { out, signal } = context;
  const text = shownIn(context, progress);
  let last = first;
  for await (const status of watchAt(socket, signal)) {
    last = status;
    const one = { status, socket };
    if (format === 'json') out(jsonLine({ schema_version: 1, ...migrationAsJson(one) }));
    else text(stepOf(status));
  }
  return () => failUnlessDone(last);
}

function stepOf(status: MigrationStatus): Step {
  const { bytes_done: done, bytes_total: total, bytes_per_s: speed, result } = status;
  const left = leftUs(status);
  const step = {
    subject: migrationSubject(status),
    phase: migrationPhase(status),
    done,
    total,
    speed,
    ...(left !== undefined && { more: `, ${duration(left)} left` }),
  };
  if (result === null) return step;
  return { ...step, outcome: result.success ? 'done' : 'failed' };
}

function failUnlessDone({ migration, result }: MigrationStatus): void {
  if (result === null) {
    throw new KfdError('E_NOT_FOUND', `migration ${migration}: its process has ended`, {
      hint: 'run the command again on the source: it goes on, or brings the container back',
    });
  }
  if (!result.success) throw new KfdError(result.code || 'E_IO', result.message);
}
