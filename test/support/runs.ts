/** Results of end-to-end runs by what took part in them: read from TAP, kept in test/support/runs.json. */

/** Cases of one part of test/e2e. A scenario has one for each runtime. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** What one set of releases was seen to do. */
export interface Run {
  /** `system`, `kernel`, `driver`, `cgroups` and programs, by name. */
  readonly releases: Readonly<Record<string, string>>;
  readonly parts: Readonly<Record<string, Counts & { readonly day: string }>>;
}

type Verdict = keyof Counts;

interface Case {
  readonly verdict: Verdict;
  readonly name: string;
}

function readCase(line: string, indent: string): Case | undefined {
  const [, failed, name, directive] =
    new RegExp(`^${indent}(not )?ok \\d+ - (.*?)( # (?:SKIP|TODO).*)?$`).exec(line) ?? [];
  if (name === undefined) return undefined;
  if (directive !== undefined) return { verdict: 'skipped', name };
  return { verdict: failed === undefined ? 'passed' : 'failed', name };
}

function added(to: Counts | undefined, cases: readonly Case[]): Counts {
  const sum = { passed: 0, failed: 0, skipped: 0, ...to };
  for (const { verdict } of cases) sum[verdict] += 1;
  return sum;
}

/** The comment of test/e2e/main.ts. Throws when there is none. */
function releasesIn(tap: string): Record<string, string> {
  const line = /^# with (.*)$/m.exec(tap)?.[1];
  if (line === undefined) throw new Error('no line "# with": not a run of test/e2e/main.js');
  const words = line.split(', ').map((pair): [string, string] => {
    const at = pair.indexOf(' ');
    return [pair.slice(0, at), pair.slice(at + 1)];
  });
  return Object.fromEntries(words);
}

/**
 * The run that printed `tap` on `day` (YYYY-MM-DD). Where cases lie below a test these count; and the test itself, if
 * it failed although they did not. Throws when a test has no part, or no releases were told.
 */
export function runIn(tap: string, day: string): Run {
  const parts = new Map<string, Counts>();
  let below: Case[] = [];
  for (const line of tap.split('\n')) {
    const inner = readCase(line, '    ');
    if (inner !== undefined) below.push(inner);
    const outer = readCase(line, '');
    if (outer === undefined) continue;
    const [, part] = /^([a-z-]+): /.exec(outer.name) ?? [];
    if (part === undefined) throw new Error(`${outer.name}: a test without a part`);
    const alone = outer.verdict === 'failed' && below.every(({ verdict }) => verdict !== 'failed');
    const cases = below.length === 0 || alone ? [...below, outer] : below;
    parts.set(part, added(parts.get(part), cases));
    below = [];
  }
  const dated = [...parts].map(([name, counts]) => [name, { ...counts, day }] as const);
  return { releases: releasesIn(tap), parts: Object.fromEntries(dated) };
}

const keyOf = ({ releases }: Run) => JSON.stringify(Object.entries(releases).toSorted());

/** `runs` with a new one: its parts replace those of the run with the same releases. */
export function withRun(runs: readonly Run[], run: Run): Run[] {
  const before = runs.find((one) => keyOf(one) === keyOf(run));
  const parts = Object.entries({ ...before?.parts, ...run.parts });
  const merged = {
    releases: run.releases,
    parts: Object.fromEntries(parts.toSorted(([a], [b]) => (a < b ? -1 : 1))),
  };
  if (before === undefined) return [...runs, merged];
  return runs.map((one) => (one === before ? merged : one));
}

/** All parts of a run together. */
export function totalOf({ parts }: Run): Counts {
  const sum = { passed: 0, failed: 0, skipped: 0 };
  for (const { passed, failed, skipped } of Object.values(parts)) {
    sum.passed += passed;
    sum.failed += failed;
    sum.skipped += skipped;
  }
  return sum;
}
