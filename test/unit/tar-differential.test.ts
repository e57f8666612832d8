/** Archives that readers of tar take differently: no other reader finds a file of ours that our reader does not. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { askOurs, hiddenFrom } from '../fuzz/differential/compare.js';
import { archivesOf, digestOf, parseKept, shortDigest } from '../fuzz/differential/kept.js';
import { fixtures, temporaryFolder } from './paths.js';
import { paxRecords, rawTar } from './raw-tar.js';

test('what Go, GNU tar or libarchive find is known to our reader, or the archive is refused', async (t) => {
  const kept = parseKept(readFileSync(join(fixtures, 'corpus/tar/answers.txt'), 'utf8'));
  assert.equal(kept.length, 100);
  const folder = await temporaryFolder(t);
  let read = 0;
  for (const { seed, form, digest, found } of kept) {
    const { tar, gzip } = archivesOf(seed);
    assert.equal(digestOf(tar), digest, `the archive of seed ${seed} has changed`);
    const path = join(folder, `${seed}.${form}`);
    await writeFile(path, form === 'tar' ? tar : gzip);
    const own = await askOurs(path);
    const short = own.found.map(({ name, sha256 }) => ({ name, sha256: shortDigest(sha256) }));
    assert.deepEqual(hiddenFrom({ ...own, found: short }, found), [], `seed ${seed}, ${form}`);
    if (own.refused === undefined) read += 1;
  }
  assert.ok(read >= 20, `${read} archives are read: the others tell nothing`);
});

test('zeros behind a gzip stream, as tapes have them, interrupt nothing', async (t) => {
  const tar = rawTar([{ name: 'config.dump', data: Buffer.from('{}') }]);
  const path = join(await temporaryFolder(t), 'x.tar.gz');
  for (const zeros of [100, 3 << 20]) {
    await writeFile(path, Buffer.concat([gzipSync(tar), Buffer.alloc(zeros)]));
    const { found, refused } = await askOurs(path);
    assert.deepEqual([found.length, refused], [1, undefined], `${zeros} zeros`);
  }
});

for (const [record, why] of [
  ['SCHILY.realsize=512', /a sparse file/],
  ['size=', /a size that is no number/],
] as const) {
  test(`"${record}" is refused: libarchive takes another size than podman`, async (t) => {
    const path = join(await temporaryFolder(t), 'x.tar');
    const data = Buffer.alloc(513, 1);
    await writeFile(
      path,
      rawTar([
        { name: 'x', type: 'x', data: paxRecords(record) },
        { name: 'checkpoint/kfd-state-0.img', data },
      ]),
    );
    assert.match((await askOurs(path)).refused ?? 'read', why);
  });
}
