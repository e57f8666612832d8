/** The cases of the native tests, built with all guards' switches: which guards each comes to, and what it notices. */

import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Fate } from './report.js';

export interface Case {
  readonly name: string;
  readonly ms: number;
  readonly met: ReadonlySet<number>;
}

/** Cases that take no longer than this share a process. */
const quickMs = 100;
/** Those that start other programs: only core_test has the switches. */
const left = '-sfe=*/test/criu-plugin/*,*/test/launcher/*';

/** Every case of core_test in the folder `build`. Throws with the output of one that fails. */
export function measuredCases(build: string): Case[] {
  const listed = core(build, ['-ltc'], {}, 60_000).output.split('\n');
  const names = listed.filter((line) => line !== '' && !/^(\[doctest\]|=+$)/.test(line));
  const hits = join(build, 'met');
  return names.map((name) => {
    writeFileSync(hits, '');
    const begun = performance.now();
    const { status, output } = core(build, [only([name])], { KFD_MUTANT_MET: hits }, 600_000);
    if (status !== 0) throw new Error(`a native test fails without a fault: ${name}\n${output}`);
    const met = readFileSync(hits, 'utf8').split('\n').filter(Boolean).map(Number);
    return { name, ms: performance.now() - begun, met: new Set(met) };
  });
}

/** Whether a case that comes to the guard notices that it is away. The quick ones are run first. */
export function fateOf(build: string, id: number, cases: readonly Case[]): Fate {
  const meeting = cases.filter(({ met }) => met.has(id)).sort((a, b) => a.ms - b.ms);
  if (meeting.length === 0) return 'unmet';
  const quick = meeting.filter(({ ms }) => ms <= quickMs);
  const slow = meeting.slice(quick.length).map((one) => [one]);
  for (const group of quick.length > 0 ? [quick, ...slow] : slow) {
    const limit = 10_000 + 20 * Math.ceil(group.reduce((sum, { ms }) => sum + ms, 0));
    const names = group.map(({ name }) => name);
    const { status } = core(build, [only(names), '-aa=1'], { KFD_MUTANT: String(id) }, limit);
    if (status === 'late') return 'late';
    if (status !== 0) return 'failed';
  }
  return 'unnoticed';
}

/** Commas separate the names in doctest's option. */
function only(names: readonly string[]): string {
  return `-tc=${names.map((name) => name.replaceAll(',', '\\,')).join(',')}`;
}

function core(
  build: string,
  args: readonly string[],
  variables: NodeJS.ProcessEnv,
  ms: number,
): { status: number | 'late' | 'killed'; output: string } {
  const fuzz = { KFD_FUZZ_ITERATIONS: '120', KFD_FUZZ_ROUNDS: '40' };
  const ran = spawnSync('./core_test', [left, ...args], {
    cwd: build,
    env: { ...process.env, ...fuzz, ...variables },
    encoding: 'utf8',
    timeout: ms,
    killSignal: 'SIGKILL',
  });
  const isLate = ran.error !== undefined && 'code' in ran.error && ran.error.code === 'ETIMEDOUT';
  return { status: isLate ? 'late' : (ran.status ?? 'killed'), output: ran.stdout };
}
