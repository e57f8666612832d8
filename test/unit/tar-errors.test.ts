/** Which archive it is by its first bytes, and whose fault it is when one cannot be read. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdir, readlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { asArchiveError, compressionOf, walkArchive, withTar } from '../../src/archive/tar.js';
import { KfdError } from '../../src/errors.js';
import { zstdProgram } from './archive-builder.js';
import { temporaryFolder } from './paths.js';
import { rawTar } from './raw-tar.js';

const options = { zstdDecoder: zstdProgram };
const hint = 'the archive is damaged or incomplete; use another copy';
const large = rawTar([
  { name: 'a', data: Buffer.alloc(3 << 20, 1) },
  { name: 'b', data: Buffer.from('b') },
]);

/** How many descriptors of this process are for the file. */
async function descriptorsOf(path: string): Promise<number> {
  const all = await readdir('/proc/self/fd');
  const links = all.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ''));
  return (await Promise.all(links)).filter((link) => link === path).length;
}

test('an archive is known by its first bytes, however few there are', async (t) => {
  const path = join(await temporaryFolder(t), 'x');
  const tar = rawTar([{ name: 'a' }]);
  for (const [bytes, compression] of [
    [tar, 'none'],
    [tar.subarray(0, 262), 'none'],
    [gzipSync(tar), 'gzip'],
    [Buffer.of(0x1f, 0x8b), 'gzip'],
    [Buffer.of(0x28, 0xb5, 0x2f, 0xfd), 'zstd'],
  ] as const) {
    await writeFile(path, bytes);
    assert.equal(await compressionOf(path), compression);
    assert.equal(await descriptorsOf(path), 0);
  }
  for (const bytes of [
    Buffer.of(),
    Buffer.of(0x1f),
    Buffer.of(0x8b, 0x1f),
    Buffer.of(0x28, 0xb5, 0x2f),
    Buffer.of(0xfd, 0x2f, 0xb5, 0x28),
    tar.subarray(0, 261),
    Buffer.from('ustar'),
    Buffer.alloc(1024),
  ]) {
    await writeFile(path, bytes);
    await assert.rejects(compressionOf(path), {
      code: 'E_IMAGE_CORRUPT',
      message: `${path}: not a tar archive, plain, gzip or zstd`,
      hint: 'name a file written by "podman container checkpoint --export"',
    });
  }
  await assert.rejects(compressionOf(`${path}.gone`), { code: 'ENOENT' });
  const fifo = `${path}.fifo`;
  execFileSync('mkfifo', [fifo]);
  const irregular = { code: 'E_IMAGE_CORRUPT', message: `${fifo}: not a regular file` };
  await assert.rejects(compressionOf(fifo), irregular);
  await assert.rejects(
    walkArchive(fifo, options, async () => undefined),
    irregular,
  );
});

test('an error is ours, of the system, a bug, or else the bytes are wrong', () => {
  const own = new KfdError('E_HOST', 'zstd: missing');
  assert.equal(asArchiveError(own, 'job.tar'), own);
  const named = (name: string, message = 'why') => Object.assign(new Error(message), { name });
  const coded = (code: string, message = 'why') => Object.assign(new Error(message), { code });
  for (const [error, code, message, advice] of [
    [named('AbortError'), 'E_CANCELLED', 'reading was interrupted', undefined],
    [coded('EIO'), 'E_IO', 'why', undefined],
    [coded('ENOSPC'), 'E_IO', 'why', undefined],
    [new TypeError('why'), 'E_INTERNAL', 'why', undefined],
    [new RangeError('why'), 'E_INTERNAL', 'why', undefined],
    [
      coded('Z_DATA_ERROR', 'incorrect header check'),
      'E_IMAGE_CORRUPT',
      'incorrect header check',
      hint,
    ],
    [new Error('why'), 'E_IMAGE_CORRUPT', 'why', hint],
    ['why', 'E_IMAGE_CORRUPT', 'why', hint],
    [{ name: 'AbortError' }, 'E_IMAGE_CORRUPT', '[object Object]', hint],
  ] as const) {
    const known = asArchiveError(error, 'job.tar');
    assert.deepEqual(
      [known.code, known.message, known.hint, known.cause],
      [code, `job.tar: ${message}`, advice, error],
    );
  }
});

/** A zstd archive by its first bytes, for decoders of tests. */
async function fakeZstd(t: Parameters<typeof temporaryFolder>[0]): Promise<string> {
  const path = join(await temporaryFolder(t), 'job.tar');
  await writeFile(path, Buffer.concat([Buffer.of(0x28, 0xb5, 0x2f, 0xfd), Buffer.alloc(4 << 20)]));
  return path;
}

test('the first failure is the reason: of a visitor, of the decoder, of a signal', async (t) => {
  const path = await fakeZstd(t);
  /** Gives the archive of this test, whatever it is fed; `end`: what happens behind it. */
  const decoder = (end: (out: Transform) => void) => () => {
    const out = new Transform({ transform: (_chunk, _encoding, done) => done() });
    out.push(large);
    end(out);
    return out;
  };
  const sound = { zstdDecoder: decoder(() => undefined) };
  const fail = new Error('of the visitor');
  const failing = walkArchive(path, sound, async () => {
    throw fail;
  });
  await assert.rejects(failing, {
    code: 'E_IMAGE_CORRUPT',
    message: `${path}: of the visitor`,
    cause: fail,
  });
  const own = new KfdError('E_GPU_IO', 'of the visitor');
  await assert.rejects(
    walkArchive(path, sound, async () => {
      throw own;
    }),
    own,
  );
  const broken = { zstdDecoder: decoder((out) => out.destroy(new Error('of the decoder'))) };
  await assert.rejects(
    walkArchive(path, broken, async () => undefined),
    {
      code: 'E_IMAGE_CORRUPT',
      message: `${path}: of the decoder`,
      hint,
    },
  );
});

for (const [form, bytes] of [
  ['plain', large],
  ['gzip', gzipSync(large, { level: 0 })],
] as const) {
  test(`a signal ends the reading of a ${form} archive, and no descriptor stays open`, async (t) => {
    const path = join(await temporaryFolder(t), 'job.tar');
    await writeFile(path, bytes);
    const stop = new AbortController();
    const reading = walkArchive(
      path,
      { ...options, signal: stop.signal },
      async (entry, content) => {
        assert.equal(await descriptorsOf(path), 1);
        assert.equal('place' in entry, form === 'plain');
        for await (const _ of content) {
          stop.abort();
        }
      },
    );
    await assert.rejects(reading, {
      code: 'E_CANCELLED',
      message: `${path}: reading was interrupted`,
    });
    assert.equal(await descriptorsOf(path), 0);
    const names: string[] = [];
    const whole = { ...options, signal: new AbortController().signal };
    const result = await walkArchive(path, whole, async ({ name }) => void names.push(name));
    assert.deepEqual(names, ['a', 'b']);
    const compression = form === 'plain' ? 'none' : 'gzip';
    assert.deepEqual(result, { kind: 'archive', compression, misplaced: [] });
    const counted = withTar(path, whole, async (tar, found) => {
      let entries = 0;
      for await (const _ of tar) entries += 1;
      return `${entries} in ${found}`;
    });
    assert.equal(await counted, `2 in ${compression}`);
    assert.equal(await descriptorsOf(path), 0);
  });
}

test('an interruption between the last entry and the end of the stream is one', async (t) => {
  const path = join(await temporaryFolder(t), 'job.tar.gz');
  await writeFile(path, gzipSync(large));
  const stop = new AbortController();
  const reading = withTar(path, { ...options, signal: stop.signal }, async (tar) => {
    for await (const _ of tar);
    stop.abort();
    return 'read';
  });
  await assert.rejects(reading, { code: 'E_CANCELLED' });
});
