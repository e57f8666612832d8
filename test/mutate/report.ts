/** What the mutation testers print: the survivors, the score of each file, and the whole score. */

import { type Judged, type Named, numbered } from './judged.js';

/** Percent of the faults that tests must notice. */
const leastScore = 85;

/** What became of a fault. `late`: a deadline noticed it. `unmet`: no test comes to it. */
export type Fate = 'failed' | 'late' | 'unnoticed' | 'unmet';

export interface Fault extends Named {
  readonly line: number;
  readonly fate: Fate;
}

export interface Report {
  readonly text: string;
  /** Whether the score suffices. */
  readonly suffices: boolean;
}

export function reportOn(found: readonly Fault[], judged: Judged): Report {
  const faults = numbered(found);
  const survivors = faults.filter(({ fate }) => fate === 'unnoticed' || fate === 'unmet');
  const open = survivors.filter((one) => judged.reasonOf(one) === undefined);
  const files = [...new Set(faults.map(({ file }) => file))];
  const scores = files.map((file) => {
    const own = faults.filter((fault) => fault.file === file);
    const alive = survivors.filter((fault) => fault.file === file).length;
    return `${String(own.length - alive).padStart(5)} of ${String(own.length).padStart(5)}  ${file}`;
  });
  const stale = judged.staleOf(new Set(files), survivors);
  const late = faults.filter(({ fate }) => fate === 'late').length;
  const noticed = faults.length - survivors.length;
  const score = (100 * noticed) / faults.length;
  const lines = [
    ...survivors.map((one) => lineOf(one, judged.reasonOf(one))),
    '',
    ...stale.map((words) => `no survivor, but in test/mutate/judged.list: ${words}`),
    ...scores,
    `${survivors.length} survivors, ${open.length} of them not in test/mutate/judged.list`,
    `${noticed} of ${faults.length} noticed (${late} by a deadline): ${score.toFixed(1)} %`,
    '',
  ];
  return { text: lines.join('\n'), suffices: score >= leastScore };
}

function lineOf({ file, line, change, fate }: Fault, reason: string | undefined): string {
  const never = fate === 'unmet' ? ' (no test comes here)' : '';
  return `${file}:${line}: ${change}${never}${reason === undefined ? '' : ` (judged: ${reason})`}`;
}
