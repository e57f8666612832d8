/** The mutants of a run, and what the tests have noticed of them so far. */

import { availableParallelism } from 'node:os';
import { coverageOf, type TestFile } from './coverage.js';
import { judgeFile, judgeLoading, type Verdict } from './judge.js';
import type { Fault } from './report.js';
import type { Mutant } from './tree.js';

/** Test files that judge one mutant of code that runs while modules load; each needs a process. */
const filesForLoading = 4;

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  const lane = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
}

/** The change that a mutant is, in the words of a report. */
export function faultOf({ file, line, from, to }: Mutant): Omit<Fault, 'fate'> {
  return { file, line, change: `${from} -> ${to === '' ? 'nothing' : to}` };
}

export class Run {
  readonly #mutants: readonly Mutant[];
  readonly #say: (text: string) => void;
  readonly #alive: Set<number>;
  readonly #files: TestFile[] = [];
  readonly #verdicts = new Map<number, Verdict>();
  /** How many mutants of a file the tests of another file notice. */
  readonly #counts = new Map<string, number>();

  /** `passedOver`: mutants that count as survivors without any test. `say` hears how far it is. */
  constructor(
    mutants: readonly Mutant[],
    passedOver: ReadonlySet<number>,
    say: (text: string) => void,
  ) {
    this.#mutants = mutants;
    this.#say = say;
    this.#alive = new Set(mutants.map(({ id }) => id).filter((id) => !passedOver.has(id)));
  }

  /** Runs what is left against test files, the quickest first. `progress` is called after each. */
  async judge(paths: readonly string[], progress: () => Promise<void>): Promise<void> {
    const files: TestFile[] = [];
    await inParallel(paths, async (path) => {
      const file = await coverageOf(path, this.#say);
      if (file !== undefined) files.push(file);
    });
    this.#files.push(...files);
    const time = ({ tests }: TestFile) => tests.reduce((sum, { ms }) => sum + ms, 0);
    // One file after another: none judges what another one has noticed.
    for (const file of files.sort((a, b) => time(a) - time(b))) {
      const begun = performance.now();
      await judgeFile(file, this.#alive, (id, verdict) => this.#noticed(file, id, verdict));
      const seconds = Math.round((performance.now() - begun) / 1000);
      const left = `${this.#alive.size} of ${this.#mutants.length} are left`;
      this.#say(`${left}: ${file.path} (${seconds} s)`);
      await progress();
    }
  }

  /** Runs what is left and is met while test files load. */
  async judgeLoading(): Promise<void> {
    await inParallel([...this.#alive], async (id) => {
      const loading = this.#files.filter((file) => file.loading.has(id) && file.tests.length > 0);
      // The tests of its subject first.
      const count = (file: TestFile) => this.#counts.get(this.#pair(file, id)) ?? 0;
      loading.sort((a, b) => count(b) - count(a));
      for (const file of loading.slice(0, filesForLoading)) {
        const verdict = await judgeLoading(file, id);
        if (verdict !== undefined) return this.#noticed(file, id, verdict);
      }
    });
  }

  /** All mutants, with what became of each of them so far. */
  faults(): Fault[] {
    const met = new Set(
      this.#files.flatMap(({ loading, tests }) => [
        ...loading,
        ...tests.flatMap(({ hits }) => hits),
      ]),
    );
    return this.#mutants.map((mutant) => {
      const { id } = mutant;
      const verdict = this.#verdicts.get(id) ?? (met.has(id) ? 'unnoticed' : 'unmet');
      return { ...faultOf(mutant), fate: verdict === 'crashed' ? 'failed' : verdict };
    });
  }

  #pair({ path }: TestFile, id: number): string {
    return `${path} ${this.#mutants[id]?.file}`;
  }

  #noticed(file: TestFile, id: number, verdict: Verdict): void {
    this.#alive.delete(id);
    this.#verdicts.set(id, verdict);
    const pair = this.#pair(file, id);
    this.#counts.set(pair, (this.#counts.get(pair) ?? 0) + 1);
  }
}
