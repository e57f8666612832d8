/**
 * Runs the parts that are named, as PART=COUNT or many=COUNTxROUNDS, in the guest. Its status is 1 when anything grows.
 */

import { run } from '../e2e/support/command.js';
import { install } from '../e2e/support/product.js';
import { assertNothingLeft } from '../e2e/support/suite.js';
import { chain } from './chain.js';
import { type Growth, growthTable } from './growth.js';
import { many, rounds } from './many.js';
import { Progress } from './progress.js';
import { keep } from './results.js';
import { running } from './running.js';

/** A part counts cycles, or containers that all go through the same `cycles`. */
interface Body {
  readonly usual: number;
  readonly cycles?: number;
  body(progress: Progress, count: number): Promise<void>;
}

const parts = {
  chain: { usual: 1000, body: chain },
  running: { usual: 200, body: running },
  many: { usual: 64, cycles: rounds, body: many },
} satisfies Record<string, Body>;
type Part = keyof typeof parts;

interface Wanted {
  readonly part: Part;
  readonly count: number;
  readonly cycles: number;
}

/** What the command line asks for, in its order; all parts when it asks for none. */
function wanted(words: readonly string[]): Wanted[] {
  const usual = Object.entries(parts).map(([part, body]) => `${part}=${body.usual}`);
  return (words.length === 0 ? usual : words).map((word) => {
    const [, part = '', count = '', ofAll] = /^(\w+)=([1-9]\d*)(?:x([1-9]\d*))?$/.exec(word) ?? [];
    const body: Body | undefined = Object.hasOwn(parts, part) ? parts[part as Part] : undefined;
    if (body === undefined || (ofAll !== undefined && body.cycles === undefined))
      throw new Error(`${word}: use PART=COUNT; parts: ${Object.keys(parts).join(', ')}`);
    const cycles = Number(ofAll ?? body.cycles ?? count);
    return { part: part as Part, count: Number(count), cycles };
  });
}

await install();
await run('podman', 'load', '-q', '-i', '/repo/build/lab/programs/image.tar');
process.stdout.write('simulated GPU, emulated machine: compare times only with each other\n');
const grown: Growth[] = [];
for (const { part, count, cycles } of wanted(process.argv.slice(2))) {
  const progress = new Progress(part, cycles);
  await parts[part].body(progress, count);
  await assertNothingLeft();
  const found = keep(part, progress.samples);
  process.stdout.write(`${part}: ${cycles} cycles\n${growthTable(found)}`);
  grown.push(...found.filter((one) => one.grows));
}
if (grown.length > 0) {
  process.stdout.write(`grown: ${grown.map(({ name }) => name).join(', ')}\n`);
  process.exitCode = 1;
}
