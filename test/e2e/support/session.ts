/**
 * The sessions of one container, found as an operator finds them: CRIU's log names theirs. Podman
 * keeps that log while the command runs, when it fails, and with --keep.
 */

import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { attempt, until } from './command.js';
import type { Container } from './container.js';

const logs = '/var/log/kfd-checkpoint';

export type Operation = 'dump' | 'restore';

/** One line of a session's log. */
export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly criu_pid: number;
  readonly outcome?: string;
  readonly err?: { readonly code?: string; readonly message: string };
  readonly content_bytes?: number;
  readonly max_rss_bytes?: number;
  readonly timings_us?: Readonly<Record<string, number>>;
  readonly [key: string]: unknown;
}

/** Text of CRIU's log of the newest operation of this kind; empty when there was none. */
export function criuLog(job: Container, operation: Operation): string {
  return textIfAny(join(job.bundle, `${operation}.log`));
}

/** The file that `text` names as a session's log. */
export function namedSessionLog(text: string): string | undefined {
  return /session log: (\/\S+\.log)/.exec(text)?.[1];
}

/** The session's own account of its time, once it has one. */
export async function sessionEnd(job: Container, operation: Operation): Promise<LogLine> {
  const path = namedSessionLog(criuLog(job, operation));
  if (path === undefined) throw new Error(`${job.name}: ${operation}.log names no session's log`);
  return until(`the end of ${path}`, () =>
    readLines(path).find((line) => line.msg === 'session ended'),
  );
}

/** What the newest session of this kind has logged, as far as CRIU's log names it. */
export function sessionLog(job: Container, operation: Operation): LogLine[] {
  const path = namedSessionLog(criuLog(job, operation));
  return path === undefined ? [] : readLines(path);
}

/** Waits until a running session of `job` has logged `message`; returns CRIU's pid and the daemon's. */
export async function sessionThat(
  job: Container,
  operation: Operation,
  message: string,
): Promise<{ criu: number; daemon: number }> {
  const log = join(job.bundle, `${operation}.log`);
  return until(`a ${operation} session that logs "${message}"`, async () => {
    const path = namedSessionLog(textIfAny(log));
    const line = path !== undefined && readLines(path).find(({ msg }) => msg === message);
    if (!line) return undefined;
    // The log may still be that of an earlier operation.
    const [daemon] = await sessionPids(`${operation} ${line.criu_pid} `);
    return daemon !== undefined && { criu: line.criu_pid, daemon };
  });
}

/** Waits until the one session that runs has logged `message`; for engines whose CRIU logs are not podman's. */
export async function runningSessionThat(operation: Operation, message: string): Promise<void> {
  const ours = new RegExp(`Z-${operation}-\\d+\\.log$`);
  await until(`a running ${operation} session that logs "${message}"`, async () => {
    if ((await sessionPids(`${operation} `)).length === 0) return false;
    const names = readdirSync(logs).filter((name) => ours.test(name));
    const newest = names.sort().at(-1); // they begin with the time
    const told = newest === undefined ? [] : readLines(join(logs, newest)).map(({ msg }) => msg);
    // One that has just started has no log yet, and the newest one is that of an earlier session.
    return told.includes(message) && !told.includes('session ended');
  });
}

/** The session of `job` that runs now, or is about to, if there is one: CRIU's pid and the daemon's. */
export async function startedSession(
  job: Container,
  operation: Operation,
): Promise<{ criu: number; daemon: number } | undefined> {
  const image = join(job.bundle, 'checkpoint');
  for (const daemon of await sessionPids(`${operation} `)) {
    const [directory = '', criu] = textIfAny(`/proc/${daemon}/cmdline`)
      .split('\0')
      .reverse()
      .slice(1);
    if (readLinkIfAny(directory) === image) return { criu: Number(criu), daemon };
  }
  return undefined;
}

function readLinkIfAny(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined; // CRIU has just ended
  }
}

/** Pids of running session daemons, of all or of those whose arguments begin so. */
export async function sessionPids(argumentsBegin = ''): Promise<number[]> {
  const { stdout } = await attempt('pgrep', '-f', `dist/src/session/main.js ${argumentsBegin}`);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map(Number);
}

function textIfAny(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}

/** The last line may be half written while the session runs. */
function readLines(path: string): LogLine[] {
  return textIfAny(path)
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as LogLine);
}
