/** A short run of every fuzzer, the same each time. `npm run fuzz` runs them for longer. */

import { rmSync } from 'node:fs';
import { after, test } from 'node:test';
import { fuzzFolder } from '../fuzz/file-parsers.js';
import { mutantOf } from '../fuzz/parser.js';
import { parsers } from '../fuzz/parsers.js';
import { randomFrom } from './random.js';

const rounds = 300;

after(() => rmSync(fuzzFolder, { recursive: true, force: true }));

for (const parser of parsers) {
  test(`${parser.name}: hostile input is refused, or understood`, async () => {
    for (const seed of parser.seeds) await parser.run(Buffer.from(seed));
    const random = randomFrom(20261125);
    for (let round = 0; round < rounds; round++) await parser.run(mutantOf(parser, random));
  });
}
