/** How much of an archive is taken: of headers, of an entry, of zeros at the end; and how its bytes are read. */

import assert from 'node:assert/strict';
import type { FileHandle } from 'node:fs/promises';
import { test } from 'node:test';
import { FileBytes, StreamBytes, type TarBytes } from '../../src/archive/tar-bytes.js';
import { type TarEntry, tarEntries } from '../../src/archive/tar-entries.js';
import { blockBytes, decodeTarHeader } from '../../src/archive/tar-header.js';
import { paxRecords as pax, type RawEntry, rawTar } from './raw-tar.js';

const hint = 'the archive is damaged or incomplete; use another copy';
const refused = (reason: string) => ({
  code: 'E_IMAGE_CORRUPT',
  message: `job.tar: ${reason}`,
  hint,
});

/** Bytes in pieces of one size, as a decoder gives them. */
function streamed(bytes: Buffer, piece = bytes.length, signal?: AbortSignal): StreamBytes {
  const chunks = (async function* () {
    for (let at = 0; at < bytes.length; at += piece) yield bytes.subarray(at, at + piece);
  })();
  return new StreamBytes('job.tar', chunks, signal);
}

/** The same as a file. `reads`: offsets and lengths that were asked for. */
function filed(bytes: Buffer, options: ConstructorParameters<typeof FileBytes>[3] = {}) {
  const reads: [at: number, length: number][] = [];
  const handle = {
    read: async (buffer: Buffer, _: number, length: number, at: number) => {
      reads.push([at, length]);
      return { buffer, bytesRead: bytes.copy(buffer, 0, at, at + length) };
    },
  } as unknown as FileHandle;
  return { tar: new FileBytes('job.tar', handle, bytes.length, options), reads };
}

async function namesIn(bytes: TarBytes): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of tarEntries(bytes)) names.push(name);
  return names;
}

/** What the plain and the compressed reader say: the names, or that they are refused. */
async function both(tar: Buffer): Promise<string[]> {
  const names = await namesIn(filed(tar).tar);
  assert.deepEqual(await namesIn(streamed(tar)), names);
  return names;
}
async function bothRefuse(tar: Buffer, reason: string): Promise<void> {
  for (const bytes of [filed(tar).tar, streamed(tar)]) {
    await assert.rejects(namesIn(bytes), refused(reason));
  }
}

test('the headers of one entry have 1 MiB together, and the next entry has as much', async () => {
  const link = (bytes: number): RawEntry => ({ name: 'K', type: 'K', data: Buffer.alloc(bytes) });
  const x = { name: 'x', type: 'x', data: pax('path=b') };
  const entry = [link((1 << 20) - x.data.length), x, { name: 'a' }];
  assert.deepEqual(await both(rawTar([...entry, link(1 << 20), { name: 'c' }])), ['b', 'c']);
  const more = [link((1 << 20) - x.data.length + 1), x, { name: 'a' }];
  await bothRefuse(rawTar(more), 'a header is too large');
});

test('an entry has 64 headers before its own at most, and the next entry has as many', async () => {
  const globals = (count: number): RawEntry[] => Array(count).fill({ name: 'g', type: 'g' });
  const entry = { name: 'a' };
  assert.deepEqual(await both(rawTar([...globals(64), entry, ...globals(64), entry])), ['a', 'a']);
  await bothRefuse(rawTar([...globals(65), entry]), 'too many headers of one entry');
});

test('an archive has 2^18 headers, and one more of its end', async () => {
  const block = rawTar([{ name: 'a' }]).subarray(0, blockBytes);
  const many = Buffer.concat(Array(1 << 10).fill(block));
  const chunks = (async function* () {
    for (let i = 0; i < 1 << 8; i++) yield many;
    yield block;
    yield Buffer.alloc(2 * blockBytes);
  })();
  let count = 0;
  // One pass: it takes long.
  const reading = async () => {
    for await (const _ of tarEntries(new StreamBytes('job.tar', chunks))) count++;
  };
  await assert.rejects(reading(), refused('more headers than any checkpoint has'));
  assert.equal(count, (1 << 18) + 1);
});

test('1 MiB of zeros may follow the end marker, and nothing else', async () => {
  const tar = rawTar([{ name: 'a' }]);
  const followed = (by: Buffer) => Buffer.concat([tar, by]);
  for (const zeros of [0, 1, 512, 1 << 20]) {
    assert.deepEqual(await both(followed(Buffer.alloc(zeros))), ['a']);
  }
  for (const by of [Buffer.alloc((1 << 20) + 1), Buffer.of(0, 0, 1), Buffer.of(1)]) {
    await bothRefuse(followed(by), 'something behind its end');
  }
});

test('an entry has 2^50 bytes at most, whoever says it', async () => {
  const beyond = 'a: beyond the limits of an archive';
  const size = (bytes: number) => ({ name: 'x', type: 'x', data: pax(`size=${bytes}`) });
  for (const [bytes, reason] of [
    [2 ** 50 + 1, beyond],
    [999_999_999_999_999, 'the end is missing'],
    [2 ** 50, 'the end is missing'],
  ] as const) {
    await bothRefuse(rawTar([{ name: 'a', size: bytes }]), reason);
  }
  const sixteen = [size(1_000_000_000_000_000), { name: 'a' }];
  await bothRefuse(rawTar(sixteen), 'a size that is no number');
});

test('headers before an entry say its name and size, and may come together where they agree', async () => {
  const x = (...records: string[]) => ({ name: 'x', type: 'x', data: pax(...records) });
  const g = (...records: string[]) => ({ name: 'g', type: 'g', data: pax(...records) });
  const K = { name: 'K', type: 'K', data: Buffer.from('target\0') };
  const L = (name: string) => ({ name: 'L', type: 'L', data: Buffer.from(name) });
  const data = Buffer.from('data');
  const a = { name: 'a', data };
  for (const [entries, names] of [
    [[g('comment=1'), g('comment=2'), x('mtime=1'), a], ['a']],
    [[K, L('long\0ignored'), { name: 'l', type: '2' }], ['long']],
    [[L('long'), K, a], ['long']],
    [
      [x('path=b', 'size=4'), { name: 'a', data, size: 0 }, a],
      ['b', 'a'],
    ],
    [[x('path='), a], ['a']],
    [[g('path='), a], ['a']],
    [[x('path=1', 'path=2'), a], ['2']],
  ] as const) {
    assert.deepEqual(await both(rawTar(entries)), names);
  }
  const contradiction = 'headers that contradict each other';
  const global = 'a global header with a name or size';
  for (const [entries, reason] of [
    [[g('size=4'), a], global],
    [[g('size='), a], global],
    [[g('path=b'), a], global],
    [[K, g('comment=1'), a], contradiction],
    [[K, K, a], contradiction],
    [[K, L('b'), K, a], contradiction],
    [[L('b'), K, x('path=c'), a], contradiction],
    [[x('GNU.sparse.major=1'), a], 'a sparse file'],
    [[g('GNU.sparse.major=1'), a], 'a sparse file'],
    [[x('size=1e1'), a], 'a size that is no number'],
    [[x('size=-1'), a], 'a size that is no number'],
    [[L('\0b'), a], 'an empty name'],
    [[K], 'a header without its entry'],
  ] as const) {
    await bothRefuse(rawTar(entries), reason);
  }
});

/** The headers of the only file, with and without another size. */
async function headersOf(entries: readonly RawEntry[], size: number) {
  for await (const { headers } of tarEntries(filed(rawTar(entries)).tar)) {
    return { same: headers(), other: headers(size) };
  }
  throw new Error('there is no entry');
}

test('headers are kept byte for byte; another size is in one place alone', async () => {
  const x = (...records: string[]) => ({ name: 'x', type: 'x', data: pax(...records) });
  const L = { name: 'L', type: 'L', data: Buffer.alloc(600, 'l') };
  const entry = { name: 'a', data: Buffer.alloc(10) };
  const before = rawTar([L, x('uid=1', 'size=10', 'gid=2'), entry]);
  const { same, other } = await headersOf([L, x('uid=1', 'size=10', 'gid=2'), entry], 700);
  const end = (bytes: Buffer) => bytes.length - 1024;
  assert.deepEqual(same, before.subarray(0, end(before) - 512));
  const expected = rawTar([L, x('uid=1', 'gid=2'), { name: 'a', size: 700 }]);
  assert.deepEqual(other, expected.subarray(0, end(expected)));
  // Nothing is left of a header that had the size alone.
  const alone = await headersOf([x('size=10'), entry], 700);
  assert.deepEqual(alone.other, rawTar([{ name: 'a', size: 700 }]).subarray(0, blockBytes));
  assert.equal(decodeTarHeader(alone.same.subarray(0, blockBytes))?.type, 'x');
});

test('a reader of contents may stop anywhere; the next entry is found, and bytes come in order', async () => {
  const [a, b] = [Buffer.alloc(3000, 'a'), Buffer.alloc(1025, 'b')];
  const tar = rawTar([{ name: 'a', data: a }, { name: 'e' }, { name: 'b', data: b }]);
  for (const piece of [1, 511, 512, 513, 4096, tar.length]) {
    for (const pieces of [0, 1, 2]) {
      for (const bytes of [streamed(tar, piece), filed(tar).tar]) {
        const names: string[] = [];
        for await (const { name, content, size } of tarEntries(bytes)) {
          names.push(name);
          let left = name === 'b' ? size : pieces;
          const read: Buffer[] = [];
          for await (const chunk of content) {
            read.push(chunk);
            if (--left <= 0) break;
          }
          const whole = name === 'b' ? b : a;
          const got = Buffer.concat(read);
          assert.ok(got.equals(whole.subarray(0, got.length)), name);
        }
        assert.deepEqual(names, ['a', 'e', 'b']);
      }
    }
  }
});

test('a file is read where its entry lies, one piece ahead, and not at all when nobody asks', async () => {
  const data = Buffer.alloc((2 << 20) + 5, 'x');
  const tar = rawTar([
    { name: 'a', data },
    { name: 'b', data: Buffer.from('b') },
  ]);
  const progress: number[] = [];
  const { tar: bytes, reads } = filed(tar, { onProgress: (read) => progress.push(read) });
  const places: (TarEntry['place'] | undefined)[] = [];
  const asked: number[] = [];
  for await (const { name, content, place } of tarEntries(bytes)) {
    places.push(place);
    if (name === 'a') for await (const _ of content) asked.push(reads.length);
  }
  assert.deepEqual(asked, [3, 4, 4], 'reads before each piece: the header, it, and the next one');
  const mib = 1 << 20;
  assert.deepEqual(reads.slice(0, 5), [
    [0, 512],
    [512, mib],
    [512 + mib, mib],
    [512 + 2 * mib, 5],
    [512 + 2 * mib + 512, 512],
  ]);
  assert.deepEqual(progress, [512 + mib, 512 + 2 * mib, 512 + 2 * mib + 5]);
  const second = 512 + 2 * mib + 512 + 512;
  assert.deepEqual(places, [
    { path: 'job.tar', offset: 512, size: data.length },
    { path: 'job.tar', offset: second, size: 1 },
  ]);
  assert.ok(!reads.some(([at]) => at === second), 'the contents of b were read');
});

test('an interruption ends both readers before the next piece', async () => {
  const stop = new AbortController();
  const cancelled = { code: 'E_CANCELLED', message: 'job.tar: reading was interrupted' };
  const data = Buffer.alloc(9 << 20);
  const tar = rawTar([{ name: 'a', data }, { name: 'b' }]);
  const { tar: file, reads } = filed(tar, { signal: stop.signal });
  const interrupted = async () => {
    for await (const { content } of tarEntries(file)) {
      for await (const _ of content) stop.abort();
    }
  };
  await assert.rejects(interrupted, cancelled);
  assert.ok(reads.length <= 3, `${reads.length} reads`);
  await assert.rejects(namesIn(filed(tar, { signal: stop.signal }).tar), cancelled);
  // Decoders of zeros need no input for long: a signal has its turn every 4 MiB.
  const late = new AbortController();
  const stream = streamed(tar, 1 << 20, late.signal);
  const skipped = namesIn(stream);
  setImmediate(() => late.abort());
  await assert.rejects(skipped, cancelled);
});
