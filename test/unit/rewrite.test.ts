/** Rewriting an archive: compression, fidelity, damage, full disks. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs, { closeSync, openSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readContents } from '../../src/archive/contents.js';
import { rewriteArchive } from '../../src/archive/rewrite.js';
import { ProgramFilter } from '../../src/os/filter.js';
import { entriesOf, tarOf } from './archive-builder.js';
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
  const real = fs.write;
  t.after(() => {
    Object.assign(fs, { write: real });
    syncBuiltinESMExports();
    closeSync(fd);
  });
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
  Object.assign(fs, { write: slow });
  syncBuiltinESMExports();
  const copying = rewriteArchive(path, fd, new Map(), { ...options, signal: stop.signal });
  await assert.rejects(copying, { code: 'E_CANCELLED' });
  assert.equal(underWay, 0);
});
