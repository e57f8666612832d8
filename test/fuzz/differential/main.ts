/**
 * node main.js SECONDS [SEED]: compares our reader of archives with Go's, GNU tar's and libarchive's on generated
 * archives. An archive in which another one finds what ours does not is kept in build/fuzz, and ends in status 1.
 */

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from '../../unit/paths.js';
import { randomFrom } from '../../unit/random.js';
import { zstdCompressed } from '../compress.js';
import { askOurs, hiddenFrom } from './compare.js';
import { archivesOf } from './kept.js';
import { askGnu, askGo, askLibarchive, missingPeers, peerNames } from './peers.js';

const kept = join(repository, 'build/fuzz');
const work = join(kept, 'differential');
const perRound = 40;

/** The archives of one seed, by the end of the name. */
function pathsOf(seed: number): { readonly path: string; readonly bytes: Buffer }[] {
  const { tar, gzip } = archivesOf(seed);
  const base = join(work, `tar-${seed}`);
  const all = [
    { path: `${base}.tar`, bytes: tar },
    { path: `${base}.tar.gz`, bytes: gzip },
  ];
  const random = randomFrom(seed + 1);
  if (seed % 4 === 0) all.push({ path: `${base}.tar.zst`, bytes: zstdCompressed(tar, random) });
  return all;
}

let findings = 0;
let compared = 0;
let refused = 0;

async function compareAll(seeds: readonly number[]): Promise<void> {
  const archives = seeds.flatMap(pathsOf);
  for (const { path, bytes } of archives) writeFileSync(path, bytes);
  const go = askGo(archives.map(({ path }) => path));
  for (const [index, { path, bytes }] of archives.entries()) {
    let faults: string[];
    try {
      const own = await askOurs(path);
      const others = [go[index], askGnu(path), askLibarchive(path)];
      if (own.refused !== undefined) refused += 1;
      faults = others.flatMap((answer, peer) =>
        hiddenFrom(own, answer?.found ?? []).map(
          ({ name }) =>
            `${peerNames[peer]} finds ${JSON.stringify(name)}${answer?.failed ? ' (and complains)' : ''}`,
        ),
      );
    } catch (error) {
      faults = [`ours fails: ${error instanceof Error ? error.stack : String(error)}`];
    }
    compared += 1;
    rmSync(path);
    if (faults.length === 0) continue;
    findings += 1;
    const copy = join(kept, path.slice(work.length + 1));
    writeFileSync(copy, bytes);
    console.log(`${copy}: ${faults.join('; ')}`);
  }
}

const missing = missingPeers();
if (missing.length > 0) {
  console.error(`fuzz: these Debian packages are missing: ${missing.join(' ')}`);
  process.exit(2);
}
rmSync(work, { recursive: true, force: true });
mkdirSync(work, { recursive: true });
const end = Date.now() + Number(process.argv[2]) * 1000;
let seed = Number(process.argv[3] ?? 1);
do {
  await compareAll(Array.from({ length: perRound }, () => seed++));
} while (Date.now() < end);
console.log(
  `differential: ${compared} archives compared, ${refused} refused by ours, ${findings} findings`,
);
process.exitCode = findings === 0 ? 0 : 1;
