/** `kfd-checkpoint sessions`: lists the running checkpoints and restores of all container engines. */

import { Command, Option } from 'commander';
import { KfdError } from '../errors.js';
import { SessionClient, sessionPids } from '../session/control/client.js';
import type { SessionStatus } from '../session/control/types.js';
import type { CommandContext } from './context.js';
import { duration, json, rate, size, table } from './format.js';

export function sessionsCommand({ out, err }: CommandContext): Command {
  return new Command('sessions')
    .description('list the running checkpoints and restores')
    .addOption(
      new Option('--format <format>', 'output format').choices(['table', 'json']).default('table'),
    )
    .addOption(rootOption())
    .action(async ({ root, format }: { root: string; format: 'table' | 'json' }) => {
      const { sessions, failures } = await statuses(root);
      if (format === 'json') {
        out(json({ schema_version: 1, sessions: sessions.map(statusAsJson) }));
      } else if (sessions.length > 0) out(sessionsTable(sessions));
      else if (failures.length === 0) err('no checkpoint or restore is running\n');
      // One that is stopped, say, keeps none of the others from being shown.
      if (failures.length > 0) throw failures[0];
    });
}

export const rootOption = () =>
  new Option('--root <dir>', 'read the system below this folder').default('/');

/** Of all sessions that were not killed and have not ended meanwhile, and why others have none. */
async function statuses(root: string) {
  const asked = sessionPids(root).map((pid) =>
    SessionClient.with(root, pid, (client) => client.status()),
  );
  const answers = await Promise.allSettled(asked);
  const sessions = answers.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
  const reasons = answers.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
  const isGone = (error: unknown) => error instanceof KfdError && error.code === 'E_NOT_FOUND';
  return { sessions, failures: reasons.filter((reason) => !isGone(reason)) };
}

const operations = new Map<string, string>([
  ['OPERATION_DUMP', 'checkpoint'],
  ['OPERATION_RESTORE', 'restore'],
]);

/** A newer session may do what this program has no word for. */
export function operationOf({ operation }: SessionStatus): string {
  return operations.get(operation) ?? 'unknown';
}

/** The phase, and what keeps the session from going on in it. */
export function phaseOf({ phase, cancelled, files }: SessionStatus): string {
  if (cancelled) return `${phase}, cancelled`;
  const waits = files.some(({ waiting }) => waiting);
  return waits ? `${phase}, waiting for memory` : phase;
}

/** Of contents so far, bytes a second; 0 before a transfer has begun. */
export function rateOf({ bytes_done: bytes, transfer_us: us }: SessionStatus): number {
  return us === 0 ? 0 : Math.round((bytes / us) * 1e6);
}

/** As it is printed: the words of the command line, and no field without a value. */
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

/** Which session is meant: the one of CRIU `pid`, else the only one there is. Throws E_NOT_FOUND, E_USAGE. */
export async function chosenSession(root: string, pid: string | undefined): Promise<number> {
  if (pid !== undefined) {
    if (sessionPids(root).includes(Number(pid))) return Number(pid);
    throw new KfdError('E_NOT_FOUND', `session ${pid}: there is none`, {
      hint: 'see "kfd-checkpoint sessions"',
    });
  }
  const { sessions, failures } = await statuses(root);
  if (failures.length > 0) throw failures[0];
  const [first, ...more] = sessions;
  if (first === undefined) {
    throw new KfdError('E_NOT_FOUND', 'sessions: no checkpoint or restore is running', {
      hint: 'start one; it can be watched from the moment when its engine has called CRIU',
    });
  }
  if (more.length === 0) return first.criu_pid;
  const pids = [first, ...more].map(({ criu_pid }) => criu_pid).join(', ');
  throw new KfdError('E_USAGE', `sessions: several are running: ${pids}`, {
    hint: 'name one of them',
  });
}
