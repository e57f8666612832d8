/**
 * The list of archives with the answers of other readers, which the unit tests compare ours with. They are made again
 * from their seeds. `node dist/test/fuzz/differential/kept.js >test/fixtures/corpus/tar/answers.txt` asks the readers
 * again.
 */

import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { randomFrom } from '../../unit/random.js';
import { gzipped, tarFrom } from '../tar-grammar.js';
import { type Answer, askGnu, askGo, askLibarchive, type Found, peerNames } from './peers.js';

/** The tar file of a seed, and the same in gzip: whole, in two streams, cut or with something behind it. */
export function archivesOf(seed: number): { readonly tar: Buffer; readonly gzip: Buffer } {
  const random = randomFrom(seed * 7919 + 1);
  for (let turn = 0; turn < 8; turn++) random(2); // the first numbers of near seeds are alike
  const tar = tarFrom(random);
  return { tar, gzip: gzipped(tar, random) };
}

/** Enough of a digest for a list. */
export function shortDigest(sha256: string): string {
  return sha256.slice(0, 16);
}

export function digestOf(bytes: Buffer): string {
  return shortDigest(createHash('sha256').update(bytes).digest('hex'));
}

export interface Kept {
  readonly seed: number;
  readonly form: 'tar' | 'gzip';
  /** Of the tar file: the generator still makes the same. */
  readonly digest: string;
  readonly found: readonly (Found & { readonly peer: string })[];
}

/** One line for each archive, and one below it for each file that a reader finds. */
export function parseKept(text: string): Kept[] {
  const kept: (Omit<Kept, 'found'> & { found: (Found & { peer: string })[] })[] = [];
  for (const line of text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))) {
    const [first = '', second = '', ...rest] = line.trim().split(' ');
    if (line.startsWith(' ')) {
      const name = JSON.parse(rest.join(' ')) as string;
      kept.at(-1)?.found.push({ peer: first, sha256: second, name });
    } else {
      const form = second === 'gzip' ? 'gzip' : 'tar';
      kept.push({ seed: Number(first), form, digest: rest[0] ?? '', found: [] });
    }
  }
  return kept;
}

function ask(path: string, bytes: Buffer): Answer[] {
  writeFileSync(path, bytes);
  return [...askGo([path]), askGnu(path), askLibarchive(path)];
}

function linesOf(head: string, answers: readonly Answer[]): string[] {
  const found = answers.flatMap((answer, peer) =>
    answer.found.map(
      ({ name, sha256 }) => `  ${peerNames[peer]} ${shortDigest(sha256)} ${JSON.stringify(name)}`,
    ),
  );
  return [head, ...found];
}

function main(): void {
  const folder = mkdtempSync(join(tmpdir(), 'kfd-kept-'));
  const wanted = { differing: 38, alike: 12 };
  console.log('# What Go 1.19, GNU tar 1.34 and libarchive 3.6 find: kept.ts says how.');
  for (let seed = 1; wanted.differing > 0 || wanted.alike > 0; seed++) {
    const { tar, gzip } = archivesOf(seed);
    const answers = ask(join(folder, 'x.tar'), tar);
    const kinds = new Set(answers.map(({ found }) => JSON.stringify(found)));
    const kind = kinds.size > 1 ? 'differing' : 'alike';
    if (wanted[kind] === 0) continue;
    wanted[kind] -= 1;
    console.log(linesOf(`${seed} tar ${digestOf(tar)}`, answers).join('\n'));
    const packed = ask(join(folder, 'x.tar.gz'), gzip);
    console.log(linesOf(`${seed} gzip ${digestOf(tar)}`, packed).join('\n'));
  }
  rmSync(folder, { recursive: true });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
