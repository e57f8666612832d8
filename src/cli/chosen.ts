/** What `watch` and `cancel` are about: a session or a migration, by what the user has typed. */

import { Argument } from 'commander';
import { KfdError } from '../errors.js';
import { sessionPids } from '../session/control/folders.js';
import { type Migration, migrationsOf, namedMigration } from './migrations.js';
import { sessionStatuses } from './sessions.js';

export const sessionArgument = (syntax: string) =>
  new Argument(
    syntax,
    'process id of CRIU, as "kfd-checkpoint sessions" lists it, or a migration by id or container',
  );

export type Chosen =
  | { readonly kind: 'session'; readonly criuPid: number }
  | { readonly kind: 'migration'; readonly socket: string; readonly status: Migration['status'] };

/** Without `name` the only one that runs. Throws E_NOT_FOUND, E_USAGE. */
export async function chosen(
  root: string,
  name: string | undefined,
  signal: AbortSignal,
): Promise<Chosen> {
  if (name === undefined) return onlyOne(root, signal);
  if (sessionPids(root).includes(Number(name))) return { kind: 'session', criuPid: Number(name) };
  const { migrations, failures } = await migrationsOf(root, signal);
  const migration = namedMigration(name, migrations);
  if (migration !== undefined) return played(migration);
  if (failures.length > 0) throw failures[0];
  throw new KfdError('E_NOT_FOUND', `session ${name}: does not exist`, {
    hint: 'see "kfd-checkpoint sessions"',
  });
}

function played({ status, socket }: Migration): Chosen {
  if (socket !== undefined) return { kind: 'migration', socket, status };
  const { migration, container, host = 'HOST', side } = status;
  throw new KfdError('E_NOT_FOUND', `migration ${migration}: its process has ended`, {
    hint:
      side === 'source'
        ? `run "kfd-checkpoint migrate ${container} ${host}": it goes on, or brings it back`
        : `run "kfd-checkpoint migrate ${container} ${host}" again on the source`,
  });
}

async function onlyOne(root: string, signal: AbortSignal): Promise<Chosen> {
  const { sessions, failures } = await sessionStatuses(root, signal);
  const migrations = await migrationsOf(root, signal);
  const wrong = [...failures, ...migrations.failures];
  if (wrong.length > 0) throw wrong[0];
  const moving = migrations.migrations.filter(({ socket }) => socket !== undefined);
  // A migration has its checkpoint and its restore.
  const others = sessions.filter(
    ({ container_id: id }) => !moving.some(({ status }) => status.container_id === id),
  );
  const ids = new Set(moving.map(({ status }) => status.migration));
  const all = [...others.map(({ criu_pid }) => `${criu_pid}`), ...ids];
  if (all.length > 1) {
    throw new KfdError('E_USAGE', `sessions: several are running: ${all.join(', ')}`, {
      hint: 'name one of them',
    });
  }
  const [first] = others;
  if (first !== undefined) return { kind: 'session', criuPid: first.criu_pid };
  const migration = moving.find(({ status }) => status.side === 'source') ?? moving[0];
  if (migration !== undefined) return played(migration);
  throw new KfdError('E_NOT_FOUND', 'sessions: no checkpoint or restore is running', {
    hint: 'start one; it appears as soon as the container engine has started CRIU',
  });
}
