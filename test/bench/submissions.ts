/** What submissions cost: each slot a BO of its own, beside a single BO for the whole ring. */

import { show, spread } from './stats.js';

export interface CopySample {
  readonly case: string;
  readonly link_mb_s: number;
  readonly run: number;
  readonly bytes: number;
  readonly seconds: number;
  /** Processor time of submissions, microseconds. */
  readonly submit_us: number;
}

/** The whole ring as one BO, in the same run. */
const single = '_one_bo';

/** Parts of the link's time, one for each run: in which it is idle, and that submissions take of a processor. */
function shares(samples: readonly CopySample[], name: string) {
  const of = samples.filter((sample) => sample.case === name);
  return {
    idle: of.map(({ bytes, link_mb_s, seconds }) => 1 - bytes / 1e6 / link_mb_s / seconds),
    processor: of.map(({ bytes, link_mb_s, submit_us }) => submit_us / (bytes / link_mb_s)),
  };
}

/** How many times as fast case `name` is as with a single BO, run by run. */
function gains(samples: readonly CopySample[], name: string): number[] {
  const of = samples.filter((sample) => sample.case === name);
  return samples
    .filter((sample) => sample.case === name + single)
    .flatMap((before) => {
      const after = of.find(
        ({ run, link_mb_s }) => run === before.run && link_mb_s === before.link_mb_s,
      );
      return after === undefined ? [] : [before.seconds / after.seconds];
    });
}

/** Prints both and their ratio; returns what `native.json` has of it. */
export function reportSubmissions(samples: readonly CopySample[], print: (text: string) => void) {
  const before = shares(samples, `copies${single}`);
  const after = shares(samples, 'copies');
  const link = samples.find((sample) => sample.case === 'copies')?.link_mb_s;
  const percents = (parts: readonly number[]) =>
    `${show(
      parts.map((part) => 100 * part),
      1,
    )} %`;
  print(`submissions, copies alone at ${link} MB/s, of the link's time:\n`);
  print(
    `  one BO for the ring      idle ${percents(before.idle)}, processor ${percents(before.processor)}\n`,
  );
  print(
    `  one BO for each slot     idle ${percents(after.idle)}, processor ${percents(after.processor)}\n`,
  );
  for (const name of ['copies', 'restore_warm']) {
    print(`  ${name.padEnd(24)} ${show(gains(samples, name))} times as fast\n`);
  }
  return {
    idle: { one_bo: spread(before.idle), slots: spread(after.idle) },
    processor: { one_bo: spread(before.processor), slots: spread(after.processor) },
    restore_warm_gain: spread(gains(samples, 'restore_warm')),
  };
}
