/** Imported by every mutated file: says which mutant is on, and notes which ones the program came to. */

import { appendFileSync } from 'node:fs';

/** Set for child processes of a test, too. */
const activeName = 'KFD_MUTANT';
/** For child processes: a file that they append the numbers of their mutants to. A worker sets it late. */
export const hitsName = 'KFD_MUTANT_HITS';
const hitsFile = process.env[hitsName];

let active = Number(process.env[activeName] ?? -1);
let evaluations = 0;
let limit = Number.POSITIVE_INFINITY;
const hits = new Uint8Array(1 << 17);

/** Whether the mutant is on. Throws after more evaluations than the sound program ever needs: a loop without an end. */
export function m(id: number): boolean {
  if (hits[id] === 0 && hitsFile !== undefined) {
    // At once, because a child may be killed, or end after its test.
    appendFileSync(hitsFile, `${id}\n`);
  }
  hits[id] = 1;
  if (++evaluations > limit) throw new Error('the mutant does not end');
  return id === active;
}

/** Switches one mutant on (-1: none), for at most `maximum` evaluations of mutants. */
export function activate(id: number, maximum: number): void {
  active = id;
  evaluations = 0;
  limit = maximum;
  process.env[activeName] = String(id);
}

/** The numbers of the mutants that were met since the last call, and how often mutants were evaluated. */
export function takeHits(): { ids: number[]; evaluations: number } {
  const ids = [...hits.keys()].filter((id) => hits[id] === 1);
  hits.fill(0);
  const count = evaluations;
  evaluations = 0;
  return { ids, evaluations: count };
}
