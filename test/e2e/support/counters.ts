/**
 * The counters of `kfd-worker --ordered` (test/lab/programs/ordered.h) as the files of a checkpoint
 * have them, wherever: each of their pages begins with a mark.
 */

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { native } from '../../../src/native.js';
import { run } from './command.js';

const mark = Buffer.from('KFDORDER');
const pageBytes = 4096;
const placeAt = 8;
const givenAt = 12;
const headerBytes = 16;
const pageCount = 10;

export interface Counters {
  /** By place in the order of increments; all counters of a page are the same. */
  readonly places: readonly number[];
  /** Rounds that the GPU had been given. */
  readonly given: number;
}

/** Reads all pages of counters out of an archive without compression. */
export async function countersOf(archive: string): Promise<Counters> {
  const folder = mkdtempSync(`${archive}.`);
  try {
    await run('tar', '-C', folder, '-xf', archive);
    const places: number[] = [];
    let given = Number.NaN;
    for (const path of filesBelow(folder)) {
      const bytes = readFileSync(path);
      if (/amdgpu-pages-/.test(path)) assertSound(bytes);
      for (const page of pagesIn(bytes)) {
        const place = page.readUInt32LE(placeAt);
        assert.equal(places[place], undefined, `place ${place}: for the second time, in ${path}`);
        places[place] = page.readUInt32LE(headerBytes);
        if (place === 0) given = page.readUInt32LE(givenAt);
      }
    }
    assert.equal(places.filter((counter) => counter !== undefined).length, pageCount);
    return { places, given };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Increments happen from the first place to the last and begin again: what any moment looks like.
 * Returns the first and the last counter.
 */
export function assertInOrder(places: readonly number[]): [number, number] {
  const first = places[0] ?? Number.NaN;
  const last = places.at(-1) ?? Number.NaN;
  const text = places.join(' ');
  for (const [place, counter] of places.entries()) {
    assert.ok(counter <= (places[place - 1] ?? first), `place ${place} is ahead: ${text}`);
  }
  assert.ok(last >= first - 1, `the last place is behind: ${text}`);
  return [first, last];
}

/** Every frame has its checksum. */
function assertSound(pages: Buffer): void {
  const check = new (native().PagesCheck)();
  check.feed(pages);
  check.finish();
}

function* filesBelow(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile()) yield path;
  }
}

/** Each page of counters in a file. */
function* pagesIn(bytes: Buffer): Generator<Buffer> {
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + mark.length)) {
    // The mark is in the program's text, too, with nothing of a page around it.
    if (bytes.length < at + pageBytes || bytes.readUInt32LE(at + placeAt) >= pageCount) continue;
    const page = bytes.subarray(at, at + pageBytes);
    const counter = page.readUInt32LE(headerBytes);
    for (let word = headerBytes; word < pageBytes; word += 4) {
      assert.equal(page.readUInt32LE(word), counter, `a page of counters is torn at ${word}`);
    }
    yield page;
  }
}
