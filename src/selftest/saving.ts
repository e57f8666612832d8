/** What all checkpoints and restores of the self-test have in common: reasons, logs, times. */

import { setTimeout as delay } from 'node:timers/promises';
import { type ErrorCode, KfdError } from '../errors.js';
import type { RunResult } from '../os/exec.js';
import type { Bench } from './bench.js';
import { type SessionFacts, sessionFacts, sessionLog, tailOf } from './logs.js';
import { type StageWork, since } from './stage.js';

export type Kind = 'dump' | 'restore';

/** Longest time of one command: contents of a large GPU go to a slow disk. */
export const commandMs = 1_800_000;

/** A session ends just after CRIU. */
const endMs = 10_000;

/** Runs a program. Throws E_HOST when it is missing, E_IO with `reason` or its last words when it fails. */
export async function must(
  { run }: Pick<Bench, 'run'>,
  work: Pick<StageWork, 'signal'>,
  words: readonly [string, ...string[]],
  reason: () => Promise<string | undefined> = async () => undefined,
): Promise<string> {
  if (work.signal.aborted) throw new KfdError('E_CANCELLED', 'selftest: interrupted');
  const [program, ...args] = words;
  const result = await run(program, args, { timeoutMs: commandMs });
  if (result === undefined) {
    throw new KfdError('E_HOST', `${program}: not in PATH`, { hint: `install ${program}` });
  }
  if (result.status === 0) return result.stdout.trim();
  const why = (await reason().catch(() => undefined)) ?? lastWords(result);
  const code: ErrorCode = result.status === undefined ? 'E_TIMEOUT' : 'E_IO';
  throw new KfdError(code, `${program} ${verbOf(args)}: ${why}`);
}

const verbOf = (args: readonly string[]) =>
  args
    .filter((word) => /^[a-z]+$/.test(word))
    .slice(0, 2)
    .join(' ');

function lastWords({ status, stderr, stdout }: RunResult): string {
  const said = [stderr, stdout].map((text) => text.trim().split('\n').at(-1) ?? '');
  return said.find((text) => text !== '') ?? `status ${status ?? 'unknown'}`;
}

/** The reason in a log of CRIU: the plugin's own words, else the first error. */
export function reasonIn(log: string | undefined): string | undefined {
  const lines = (log ?? '').split('\n').filter((line) => /\bError\b/.test(line));
  const ours = lines.find((line) => line.includes('kfd-checkpoint:'));
  return (ours ?? lines[0])?.replace(/^\(\d+\.\d+\)\s*/, '').trim();
}

/**
 * Runs a checkpoint or restore as a step `name`, with the times of its session. A failure shows the session's log.
 * Throws what `action` throws.
 */
export async function timed(
  bench: Bench,
  work: StageWork,
  kind: Kind,
  name: string,
  action: () => Promise<unknown>,
): Promise<void> {
  const asked = Date.now();
  keepSessionLog(bench, work, kind, asked);
  const began = performance.now();
  await action();
  work.step({ name, us: since(began) });
  await noteTimes(bench, work, kind, name, asked);
}

/** What is undone is undone also after an interruption. */
export const finishing = { signal: new AbortController().signal } as const;

/** Adds the newest log of this kind of session to what a failure shows. */
function keepSessionLog(bench: Bench, work: StageWork, kind: Kind, asked: number): void {
  work.logOnFailure(`session ${kind}`, async () => {
    const path = await sessionLog(bench.logFolder, kind, asked);
    return path === undefined ? undefined : tailOf(path);
  });
}

/** Adds times of a session that has ended to the steps. What a log does not tell is left out. */
async function noteTimes(
  bench: Bench,
  work: StageWork,
  kind: Kind,
  name: string,
  asked: number,
): Promise<void> {
  const facts = await factsSince(bench, kind, asked);
  if (facts === undefined) return;
  const { contentBytes: bytes, timings } = facts;
  const moved = kind === 'dump' ? timings['drain'] : timings['upload'];
  const how = kind === 'dump' ? 'contents read' : 'contents written';
  if (moved !== undefined) work.step({ name: `${name}: ${how}`, us: moved, bytes });
  const { freeze } = timings;
  if (freeze !== undefined) work.step({ name: `${name}: freeze`, us: freeze });
}

async function factsSince(
  { logFolder }: Bench,
  kind: Kind,
  asked: number,
): Promise<SessionFacts | undefined> {
  const deadline = performance.now() + endMs;
  for (;;) {
    const path = await sessionLog(logFolder, kind, asked);
    // A session begins its log before CRIU begins: where there is none now, none comes.
    if (path === undefined) return undefined;
    const facts = sessionFacts((await tailOf(path)) ?? '');
    if (facts !== undefined || performance.now() > deadline) return facts;
    await delay(100);
  }
}
