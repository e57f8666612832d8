/** Rewriting an archive: compression, fidelity, damage, full disks. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs, { closeSync, openSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readContents } from '../../src/archive/contents.js';
import { rewriteArchive } from '../../src/archive/rewrite.js';
import { KfdError } from '../../src/errors.js';
import { ProgramFilter } from '../../src/os/filter.js';
import { entriesOf, tarOf } from './archive-builder.js';
import { patched } from './patched.js';
import { temporaryFolder } from './paths.js';
import { rawTar } from './raw-tar.js';
import { options, sample } from './restorable.js';

test('the compression is that of the archive', async (t) => {
  const tar = await tarOf(entriesOf(sample()));
  const folder = await temporaryFolder(t);
  const plain = join(folder, 'plain');
  await writeFile(plain, tar);
  await writeFile(join(folder, 'gzip'), gzipSync(tar));
  execFileSync('zstd', ['-q', plain, '-o', join(folder, 'zstd')]);
  for (const [name, compression] of [
    ['plain', 'none'],
    ['gzip', 'gzip'],
    ['zstd', 'zstd'],
  ] as const) {
    const out = join(folder, `${name}.out`);
    const fd = openSync(out, 'w');
    const replacement = Buffer.alloc(100_000, 'y');
    await rewriteArchive(join(folder, name), fd, new Map([['spec.dump', replacement]]), options);
    closeSync(fd);
    const contents = await readContents(out, options);
    assert.equal(contents.compression, compression);
    assert.equal(contents.documents.spec?.length, 100_000);
    assert.deepEqual(
      contents.manifest?.files,
      (await readContents(plain, options)).manifest?.files,
    );
  }
});

test('zstd that is missing or fails is named', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'plain'), await tarOf(entriesOf(sample())));
  execFileSync('zstd', ['-q', join(folder, 'plain'), '-o', join(folder, 'zstd')]);
  for (const [program, code, message] of [
    ['/nonexistent/zstd', 'E_HOST', /cannot be started/],
    ['false', 'E_IO', /false: ended with status 1$/],
    ['sh', 'E_IO', /sh: ended with status 1: \?\[2Jno room$/],
  ] as const) {
    const fd = openSync(join(folder, 'out'), 'w');
    const args = program === 'sh' ? ['-c', 'printf "\\033[2Jno room\\n" >&2; exit 1'] : [];
    const zstdEncoder = () => new ProgramFilter(program, args);
    await assert.rejects(
      rewriteArchive(join(folder, 'zstd'), fd, new Map(), { ...options, zstdEncoder }),
      { code, message },
    );
    closeSync(fd);
  }
});

test('a program that stops before its input does is an error, whatever it says', async () => {
  const input = Readable.from([Buffer.alloc(4 << 20)]);
  const filtered = pipeline(input, new ProgramFilter('head', ['-c', '1']), async (output) => {
    for await (const _ of output) {
      // Whatever it printed is not all.
    }
  });
  await assert.rejects(filtered, { code: 'E_IO', message: /^head: ended before its input/ });
});

test('an untouched archive is copied entry by entry, owners, modes and times included', async (t) => {
  const folder = await temporaryFolder(t);
  execFileSync('sh', [
    '-c',
    [
      `cd ${folder} && mkdir in && cd in && umask 027 && mkdir checkpoint artifacts`,
      'echo x > checkpoint/a && echo y > spec.dump && ln -s a checkpoint/parent',
      'chown 12:34 spec.dump && touch -d 2001-02-03 spec.dump',
      'head -c 3000000 /dev/urandom > checkpoint/pages-1.img',
    ].join(' && '),
  ]);
  const path = join(folder, 'in.tar');
  execFileSync('tar', [
    '-C',
    join(folder, 'in'),
    '--format=ustar',
    '-cf',
    path,
    'checkpoint',
    'artifacts',
    'spec.dump',
  ]);
  const out = join(folder, 'out.tar');
  const fd = openSync(out, 'w');
  await rewriteArchive(path, fd, new Map(), options);
  closeSync(fd);
  const list = (archive: string) =>
    execFileSync('tar', ['--full-time', '-tvf', archive], { encoding: 'utf8' });
  assert.equal(list(out), list(path));
  const sums = (archive: string) =>
    execFileSync('sh', ['-c', `tar -xOf ${archive} | sha256sum`], { encoding: 'utf8' });
  assert.equal(sums(out), sums(path));
});

test('a cut or hostile archive, and a full or missing target, end in an error', async (t) => {
  const folder = await temporaryFolder(t);
  const tar = await tarOf(entriesOf(sample()));
  const rewrite = async (bytes: Buffer, names: string[] = [], target = join(folder, 'out')) => {
    const path = join(folder, 'in');
    await writeFile(path, bytes);
    const fd = openSync(target, 'w');
    try {
      await rewriteArchive(
        path,
        fd,
        new Map(names.map((name) => [name, Buffer.from('x')])),
        options,
      );
    } finally {
      closeSync(fd);
    }
  };
  for (const length of [600, 1500, tar.length - 1024 - 512]) {
    await assert.rejects(
      rewrite(tar.subarray(0, length)),
      { code: 'E_IMAGE_CORRUPT' },
      `${length}`,
    );
  }
  await assert.rejects(rewrite(gzipSync(tar).subarray(0, 400)), { code: 'E_IMAGE_CORRUPT' });
  await assert.rejects(rewrite(tar, ['gone']), {
    code: 'E_IMAGE_CORRUPT',
    message: /gone went away/,
  });
  for (const name of ['/etc/passwd', '../x']) {
    await assert.rejects(rewrite(rawTar([{ name }])), { code: 'E_IMAGE_CORRUPT' });
  }
  await assert.rejects(rewrite(rawTar([{ name: 'a' }, { name: './a' }])), { message: /twice/ });
  await assert.rejects(rewrite(tar, [], '/dev/full'), { code: 'E_IO', message: /ENOSPC/ });
});

test('after a failure no write is under way, so that the descriptor can be closed', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'in.tar');
  await writeFile(path, rawTar([{ name: 'a', data: Buffer.alloc(8 << 20) }]));
  const fd = openSync(join(folder, 'out'), 'w');
  t.after(() => closeSync(fd));
  const stop = new AbortController();
  let underWay = 0;
  // A disk that takes its time; the signal comes meanwhile.
  const slow = (...args: unknown[]) => {
    underWay += 1;
    setTimeout(() => stop.abort(), 20);
    const done = args.pop() as (error: Error | null, bytes: number) => void;
    setTimeout(() => {
      underWay -= 1;
      done(null, (args[1] as Buffer).length);
    }, 200);
  };
  patched(t, fs, { write: slow as unknown as typeof fs.write });
  const copying = rewriteArchive(path, fd, new Map(), { ...options, signal: stop.signal });
  await assert.rejects(copying, { code: 'E_CANCELLED' });
  assert.equal(underWay, 0);
});

/** Runs `rewrite` with a descriptor, and returns what is in the file then. */
async function written(
  t: TestContext,
  rewrite: (fd: number) => Promise<void>,
): Promise<{ bytes: Buffer; error: unknown }> {
  const out = join(await temporaryFolder(t), 'out');
  const fd = openSync(out, 'w');
  const error = await rewrite(fd).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  closeSync(fd);
  return { bytes: await readFile(out), error };
}

test('new contents may be a part of a file; all else is byte for byte', async (t) => {
  const folder = await temporaryFolder(t);
  const [path, part] = [join(folder, 'in.tar'), join(folder, 'part')];
  const others = [
    { name: 'a', data: Buffer.alloc(700, 'a') },
    { name: 'link', type: '2' },
  ];
  await writeFile(path, rawTar([{ name: 'b', data: Buffer.from('old') }, ...others]));
  const large = randomBytes((3 << 20) + 100);
  await writeFile(part, large);
  for (const [offset, size] of [
    [0, 512],
    [0, large.length],
    [1000, 1],
    [5, 2 << 20],
  ] as const) {
    const files = new Map([['b', { path: part, offset, size }]]);
    const { bytes, error } = await written(t, (fd) => rewriteArchive(path, fd, files, options));
    assert.equal(error, undefined);
    const data = large.subarray(offset, offset + size);
    assert.ok(bytes.equals(rawTar([{ name: 'b', data }, ...others])), `${size} at ${offset}`);
  }
  const cut = new Map([['b', { path: part, offset: 100, size: large.length }]]);
  const { error } = await written(t, (fd) => rewriteArchive(path, fd, cut, options));
  assert.ok(error instanceof KfdError);
  assert.deepEqual(
    [error.code, error.message],
    ['E_IO', `${part}: became shorter while it was read`],
  );
});

test('a disk that takes few bytes at a time gets all of them, and an error ends it at once', async (t) => {
  const path = join(await temporaryFolder(t), 'in.tar');
  const tar = rawTar([{ name: 'a', data: randomBytes(100_000) }]);
  await writeFile(path, tar);
  const { write } = fs;
  let writes = 0;
  let failing = 0;
  const little = (fd: number, bytes: Buffer, at: number, length: number, _: null, done: Done) => {
    writes += 1;
    if (writes === failing) return done(Object.assign(new Error('EIO: disk'), { code: 'EIO' }), 5);
    write(fd, bytes, at, Math.min(length, 777), null, done);
  };
  type Done = (error: Error | null, written: number) => void;
  patched(t, fs, { write: little as unknown as typeof write });
  const whole = await written(t, (fd) => rewriteArchive(path, fd, new Map(), options));
  assert.equal(whole.error, undefined);
  assert.ok(whole.bytes.equals(tar));
  for (const number of [1, 3]) {
    [writes, failing] = [0, number];
    const { error } = await written(t, (fd) => rewriteArchive(path, fd, new Map(), options));
    assert.ok(error instanceof KfdError);
    assert.deepEqual([error.code, error.message], ['E_IO', `${path}: EIO: disk`]);
    assert.equal(writes, number, 'nothing is written behind the gap');
  }
});

test('progress is told in bytes of the archive, plain or compressed', async (t) => {
  const folder = await temporaryFolder(t);
  const tar = rawTar([{ name: 'a', data: randomBytes(3 << 20) }]);
  const gzip = gzipSync(tar);
  for (const [name, bytes, last] of [
    ['plain', tar, 512 + (3 << 20)],
    ['gzip', gzip, gzip.length],
  ] as const) {
    const path = join(folder, name);
    await writeFile(path, bytes);
    const told: number[] = [];
    const onProgress = (read: number) => told.push(read);
    await written(t, (fd) => rewriteArchive(path, fd, new Map(), { ...options, onProgress }));
    assert.equal(told.at(-1), last, name);
    assert.deepEqual(
      told,
      [...new Set(told)].sort((a, b) => a - b),
    );
    assert.equal(told.length, Math.ceil(bytes.length / (1 << 20)) - (name === 'plain' ? 1 : 0));
  }
});
