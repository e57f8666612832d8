/**
 * node main.js SECONDS [PARSER...]: fuzzes the parsers in turn for equal parts of the time. A finding is kept in
 * build/fuzz, and ends in status 1. `node main.js --replay PARSER FILE` runs one again.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fixtures, repository } from '../unit/paths.js';
import { randomFrom } from '../unit/random.js';
import { fuzzFolder } from './file-parsers.js';
import { mutantOf, type Parser } from './parser.js';
import { parsers } from './parsers.js';

const kept = join(repository, 'build/fuzz');
/** Findings of one parser; more are of the same fault. */
const mostFindings = 5;
/** Milliseconds that one small input may take on a busy machine. */
const slowMs = 5000;

/** Seeds, and former findings of the parser. */
function withCorpus(parser: Parser): Parser {
  const folder = join(fixtures, 'corpus', parser.name);
  let names: string[] = [];
  try {
    names = readdirSync(folder);
  } catch {
    // Most parsers have none.
  }
  const more = names.map((name) => readFileSync(join(folder, name)));
  return { ...parser, seeds: [...parser.seeds, ...more] };
}

async function fault(parser: Parser, input: Buffer): Promise<string | undefined> {
  const begun = performance.now();
  try {
    await parser.run(Buffer.from(input));
  } catch (error) {
    return error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
  const ms = performance.now() - begun;
  return ms > slowMs ? `took ${Math.round(ms)} ms` : undefined;
}

async function fuzz(given: Parser, ms: number, firstSeed: number): Promise<number> {
  const parser = withCorpus(given);
  const end = performance.now() + ms;
  let findings = 0;
  let inputs = 0;
  for (let seed = firstSeed; performance.now() < end && findings < mostFindings; seed++) {
    const random = randomFrom(Math.imul(seed, 0x9e3779b1) + 1);
    const input =
      inputs < parser.seeds.length ? (parser.seeds[inputs] as Buffer) : mutantOf(parser, random);
    inputs += 1;
    const reason = await fault(parser, input);
    if (reason === undefined) continue;
    findings += 1;
    const name = createHash('sha256').update(input).digest('hex').slice(0, 12);
    const path = join(kept, `${parser.name}-${name}`);
    writeFileSync(path, input);
    console.log(`${path}: ${reason}`);
  }
  console.log(`${parser.name}: ${inputs} inputs, ${findings} findings`);
  return findings;
}

mkdirSync(kept, { recursive: true });
process.on('exit', () => rmSync(fuzzFolder, { recursive: true, force: true }));
const [first = '', ...names] = process.argv.slice(2);
if (first === '--replay') {
  const parser = parsers.find(({ name }) => name === names[0]);
  if (parser === undefined) throw new Error(`no parser ${names[0]}`);
  const reason = await fault(parser, readFileSync(names[1] ?? ''));
  console.log(reason ?? 'no finding');
} else {
  const chosen = parsers.filter(({ name }) => names.length === 0 || names.includes(name));
  if (chosen.length === 0 || !(Number(first) > 0)) {
    throw new Error(`use SECONDS [PARSER...]; parsers: ${parsers.map(({ name }) => name)}`);
  }
  const firstSeed = Number(process.env['KFD_FUZZ_SEED'] ?? Date.now() % 1_000_000_000);
  console.log(`KFD_FUZZ_SEED=${firstSeed}`);
  let findings = 0;
  for (const parser of chosen) {
    findings += await fuzz(parser, (1000 * Number(first)) / chosen.length, firstSeed);
  }
  process.exitCode = findings === 0 ? 0 : 1;
}
