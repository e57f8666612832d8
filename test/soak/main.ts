/** Runs the parts that are named, as PART=COUNT, in the guest. Its status is 1 when anything grows. */

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

/** What the command line asks for, in its order; all parts when it asks for none. */
function wanted(words: readonly string[]): [Part, number][] {
  if (words.length === 0)
    return Object.entries(parts).map(([part, { usual }]) => [part as Part, usual]);
  return words.map((word) => {
    const [part = '', count = ''] = word.split('=');
    if (!Object.hasOwn(parts, part) || !/^[1-9]\d*$/.test(count))
      throw new Error(`${word}: use PART=COUNT; parts: ${Object.keys(parts).join(', ')}`);
    return [part as Part, Number(count)];
  });
}

await install();
await run('podman', 'load', '-q', '-i', '/repo/build/lab/programs/image.tar');
process.stdout.write('simulated GPU, emulated machine: compare times only with each other\n');
const grown: Growth[] = [];
for (const [part, count] of wanted(process.argv.slice(2))) {
  const { body, cycles = count }: Body = parts[part];
  const progress = new Progress(part, cycles);
  await body(progress, count);
  await assertNothingLeft();
  const found = keep(part, progress.samples);
  process.stdout.write(`${part}: ${cycles} cycles\n${growthTable(found)}`);
  grown.push(...found.filter((one) => one.grows));
}
if (grown.length > 0) {
  process.stdout.write(`grown: ${grown.map(({ name }) => name).join(', ')}\n`);
  process.exitCode = 1;
}
