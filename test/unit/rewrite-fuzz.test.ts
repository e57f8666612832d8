/** Hostile archives and documents on their way to another host: what `kfd-checkpoint restore` rewrites. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { rewriteConfig, rewriteSpec } from '../../src/archive/device-rules.js';
import { rewriteArchive } from '../../src/archive/rewrite.js';
import { walkArchive } from '../../src/archive/tar.js';
import { KfdError } from '../../src/errors.js';
import type { DeviceMove } from '../../src/gpu/device-numbers.js';
import { ProgramFilter } from '../../src/os/filter.js';
import { zstdProgram } from './archive-builder.js';
import { documentChanges } from './device-moves.js';
import { temporaryFolder } from './paths.js';
import { randomFrom } from './random.js';
import { mutated, rawTar } from './raw-tar.js';

const options = {
  zstdDecoder: zstdProgram,
  zstdEncoder: () => new ProgramFilter('zstd', ['-1', '-q', '-c']),
};

/** Whatever fails must say that the archive is damaged; anything else is a fault of ours. */
function assertDamage(error: unknown): void {
  assert.ok(error instanceof KfdError && error.code === 'E_IMAGE_CORRUPT', String(error));
}

/** Name to digest of every file. */
async function digestsOf(path: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  await walkArchive(path, options, async ({ name }, content) => {
    const hash = createHash('sha256');
    for await (const chunk of content) hash.update(chunk);
    found.set(name, hash.digest('hex'));
  });
  return found;
}

/** undefined: refused as damaged. */
async function seenIn(path: string): Promise<Map<string, string> | undefined> {
  return digestsOf(path).catch((error: unknown) => {
    assertDamage(error);
    return undefined;
  });
}

test('a mutated archive is refused, or its copy has the same files but for the replaced one', async (t) => {
  const random = randomFrom(2611);
  const folder = await temporaryFolder(t);
  const [from, to] = [join(folder, 'in.tar'), join(folder, 'out.tar')];
  const compressed = join(folder, 'in.tar.gz');
  const seed = rawTar([
    { name: 'spec.dump', data: Buffer.from('{"a":1}') },
    { name: 'x', type: 'x', data: Buffer.from('10 path=b\n12 size=123\n') },
    { name: 'b', data: Buffer.alloc(123, 7) },
    { name: 'checkpoint/', type: '5' },
    { name: 'L', type: 'L', data: Buffer.from(`${'l'.repeat(150)}\0`) },
    { name: 'short', data: Buffer.alloc(600, 1) },
    { name: 'checkpoint/parent', type: '2' },
    { name: 'g', type: 'g', data: Buffer.from('13 comment=x\n') },
    { name: 'last', data: Buffer.alloc(513, 2) },
  ]);
  const replacement = Buffer.from('{"a":2,"b":[]}');
  const replaced = createHash('sha256').update(replacement).digest('hex');
  let copied = 0;
  for (let round = 0; round < 250; round++) {
    const bytes = mutated(seed, random);
    const mutant = random(8) === 0 ? bytes.subarray(0, random(bytes.length)) : bytes;
    await writeFile(from, mutant);
    await writeFile(compressed, gzipSync(mutant));
    const before = await seenIn(from);
    // The same bytes are the same archive, however they are stored.
    assert.deepEqual(await seenIn(compressed), before, `round ${round}`);
    // What is copied is what was judged: a reader that sees less would let something by.
    for (const path of [from, compressed]) {
      const fd = openSync(to, 'w');
      const replacements = new Map([['spec.dump', replacement]]);
      const isCopied = await rewriteArchive(path, fd, replacements, options).then(
        () => true,
        (error: unknown) => {
          assertDamage(error);
          return false;
        },
      );
      closeSync(fd);
      if (!isCopied) {
        assert.ok(before === undefined || !before.has('spec.dump'), `round ${round}`);
        continue;
      }
      assert.ok(before !== undefined, `round ${round}`);
      const wanted = new Map(before).set('spec.dump', replaced);
      assert.deepEqual(await seenIn(to), wanted, `round ${round}`);
      copied += 1;
    }
  }
  assert.ok(copied > 30, `${copied} were copied: the mutations leave nothing`);
});

const moves: readonly DeviceMove[] = [
  { what: '/dev/kfd', from: { major: 244, minor: 0 }, to: { major: 511, minor: 0 } },
  { what: 'gpu 0', gpu: 0, from: { major: 226, minor: 128 }, to: { major: 226, minor: 200 } },
];
const annotations = { 'io.kfd-checkpoint.kfd-device': '511:0' };
const spec = JSON.stringify({
  annotations: { 'io.kfd-checkpoint.kfd-device': '244:0', other: 'a\\"b' },
  linux: {
    devices: [
      { path: '/dev/kfd', type: 'c', major: 244, minor: 0 },
      { path: '/dev/dri/renderD128', type: 'c', major: 226, minor: 128 },
    ],
    resources: { devices: [{ allow: true, type: 'c', major: 226, minor: 128, access: 'rwm' }] },
  },
});
const config = `{"id":"x","spec":${spec},"device_host_src":[{"path":"/dev/dri/renderD128"}]}`;
/** What documents are made of: mutations with these keep more of them JSON than random bytes do. */
const pieces = ['{', '}', '[', ']', ',', ':', '"', '\\', 'null', '0', '1e999', '-', 'linux', '{}'];

test('a mutated document is refused, or stays JSON, and changes once', () => {
  const random = randomFrom(77);
  let changed = 0;
  for (const [text, rewrite] of [
    [spec, rewriteSpec],
    [config, rewriteConfig],
  ] as const) {
    for (let round = 0; round < 1500; round++) {
      let mutant = text;
      for (let change = 1 + random(3); change > 0; change--) {
        const at = random(mutant.length);
        const piece = pieces[random(pieces.length)] as string;
        mutant = mutant.slice(0, at) + piece + mutant.slice(at + random(3));
      }
      let once: string;
      try {
        once = rewrite(mutant, documentChanges(moves, annotations));
      } catch (error) {
        assertDamage(error);
        continue;
      }
      if (!isJson(mutant)) continue; // the engine refuses it, too
      assert.ok(isJson(once), mutant);
      assert.equal(rewrite(once, documentChanges(moves, annotations)), once, mutant);
      if (once !== mutant) changed += 1;
    }
  }
  assert.ok(changed > 100, `${changed} were changed: the mutations leave nothing`);
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
