import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { walkPlainTar } from '../../src/archive/plain-tar.js';
import {
  blockBytes,
  decodePax,
  decodeTarHeader,
  withDevice,
} from '../../src/archive/tar-header.js';
import { KfdError } from '../../src/errors.js';
import { zstdProgram } from './archive-builder.js';
import { temporaryFolder } from './paths.js';
import { randomFrom } from './random.js';
import { checksummed, mutated, rawTar } from './raw-tar.js';

const options = { zstdDecoder: zstdProgram };
const long = `checkpoint/${'n'.repeat(120)}/${'m'.repeat(90)}.img`;
const contents: Readonly<Record<string, string>> = {
  'config.dump': '{}',
  'checkpoint/inventory.img': 'x'.repeat(1000),
  [long]: 'long',
  'checkpoint/empty': '',
};

async function listed(path: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  await walkPlainTar(path, options, async ({ name, size }, content) => {
    const chunks: Buffer[] = [];
    for await (const chunk of content) chunks.push(chunk);
    found[name] = Buffer.concat(chunks).toString();
    assert.equal(found[name].length, size);
  });
  return found;
}

async function file(t: TestContext, bytes: Buffer): Promise<string> {
  const path = join(await temporaryFolder(t), 'x.tar');
  await writeFile(path, bytes);
  return path;
}

async function refused(t: TestContext, bytes: Buffer, message: RegExp): Promise<void> {
  await assert.rejects(listed(await file(t, bytes)), { code: 'E_IMAGE_CORRUPT', message });
}

test('what GNU tar writes is read, in each of its formats', async (t) => {
  const folder = await temporaryFolder(t);
  for (const [name, text] of Object.entries(contents)) {
    await mkdir(dirname(join(folder, 'in', name)), { recursive: true });
    await writeFile(join(folder, 'in', name), text);
  }
  for (const format of ['gnu', 'pax', 'posix', 'oldgnu']) {
    const path = join(folder, `${format}.tar`);
    execFileSync('tar', ['-C', join(folder, 'in'), `--format=${format}`, '-cf', path, '.']);
    assert.deepEqual(await listed(path), contents, format);
  }
});

test('contents nobody asks for are not read', async (t) => {
  const bytes = rawTar([
    { name: 'a', data: Buffer.alloc(4096, 1) },
    { name: 'b', data: Buffer.from('b') },
  ]);
  const names: string[] = [];
  await walkPlainTar(await file(t, bytes), options, async ({ name }) => {
    names.push(name);
  });
  assert.deepEqual(names, ['a', 'b']);
});

test('sizes beyond 8 GiB are known, in base 256 and in pax, and must be there', async (t) => {
  const big = rawTar([{ name: 'big', size: 2 ** 40 }]);
  assert.equal(decodeTarHeader(big.subarray(0, blockBytes))?.size, 2 ** 40);
  await refused(t, big, /the end is missing/);
  const pax = rawTar([
    { name: 'pax', type: 'x', data: Buffer.from('21 size=109951162777\n') },
    { name: 'big', size: 0 },
  ]);
  await refused(t, pax, /the end is missing/);
  const size = Buffer.from(rawTar([{ name: 'a', size: 1 }]).subarray(0, blockBytes));
  size.fill(0xff, 124, 136);
  await refused(t, checksummed(size), /too large/);
});

test('each kind of damage has its reason', async (t) => {
  const sound = rawTar([{ name: 'a', data: Buffer.from('data') }]);
  const header = () => Buffer.from(sound.subarray(0, blockBytes));
  const bent = (bend: (block: Buffer) => void): Buffer => {
    const block = header();
    bend(block);
    return Buffer.concat([checksummed(block), sound.subarray(blockBytes)]);
  };
  await refused(
    t,
    Buffer.concat([header().fill(1, 0, 1), sound.subarray(512)]),
    /wrong header checksum/,
  );
  await refused(
    t,
    bent((block) => block.fill(0, 257, 263)),
    /not a ustar header/,
  );
  await refused(
    t,
    bent((block) => block.write('0000009', 124)),
    /not octal/,
  );
  await refused(
    t,
    bent((block) => block.write('S', 156)),
    /a sparse file/,
  );
  await refused(t, sound.subarray(0, sound.length - 1024), /the end is missing/);
  await refused(t, sound.subarray(0, sound.length - 512), /the end is missing/);
  const half = Buffer.from(sound).fill(7, sound.length - 512);
  await refused(t, half, /half an end marker/);
  for (const [records, message] of [
    ['9 size=1\n', /the end is missing|a pax record is cut/],
    ['11 size=xx\n', /no number/],
    ['26 GNU.sparse.realsize=10\n', /a sparse file/],
    ['5 a=b\n', /a pax record is cut/],
    ['6 abc\n', /without "="/],
  ] as const) {
    const data = Buffer.from(records);
    await refused(t, rawTar([{ name: 'p', type: 'x', data }, { name: 'a' }]), message);
  }
  const global = { name: 'g', type: 'g', data: Buffer.from('10 path=b\n') };
  await refused(t, rawTar([global, { name: 'a' }]), /a global header/);
  const huge = { name: 'L', type: 'L', data: Buffer.alloc((1 << 20) + 1) };
  await refused(t, rawTar([huge, { name: 'a' }]), /a header is too large/);
});

test('names from extensions are judged like all others', async (t) => {
  const hostile = '../outside';
  const pax = Buffer.from(`${`19 path=${hostile}\n`.length} path=${hostile}\n`);
  const result = await walkPlainTar(
    await file(
      t,
      rawTar([
        { name: 'x', type: 'x', data: pax },
        { name: 'inside' },
        { name: 'L', type: 'L', data: Buffer.from('/etc/passwd\0') },
        { name: 'inside' },
        { name: 'link', type: '2' },
        { name: 'dir', type: '5' },
      ]),
    ),
    options,
    async ({ name }) => assert.fail(`${name} was believed`),
  );
  assert.deepEqual(result.ignored, [hostile, '/etc/passwd', 'link']);
  await refused(t, rawTar([{ name: 'a' }, { name: './a' }]), /a is there twice/);
});

test('a device gets another number and name, and nothing else changes', () => {
  const block = rawTar([{ name: './dri/renderD128', type: '3', major: 226, minor: 128 }]).subarray(
    0,
    512,
  );
  const moved = withDevice(block, { major: 240, minor: 1_000_000 }, './dri/renderD130');
  const header = decodeTarHeader(moved);
  assert.deepEqual(
    [header?.name, header?.devMajor, header?.devMinor, header?.type],
    ['./dri/renderD130', 240, 1_000_000, '3'],
  );
  assert.deepEqual(withDevice(moved, { major: 226, minor: 128 }, './dri/renderD128'), block);
  assert.throws(() => withDevice(block, { major: 2 ** 22, minor: 0 }), { code: 'E_IMAGE_CORRUPT' });
  assert.throws(() => withDevice(block, { major: 1, minor: 0 }, 'n'.repeat(100)), {
    code: 'E_IMAGE_CORRUPT',
  });
});

test('pax records are taken whole or not at all', () => {
  assert.deepEqual(
    [...decodePax(Buffer.from('10 path=b\n12 size=123\n'))],
    [
      ['path', 'b'],
      ['size', '123'],
    ],
  );
  assert.deepEqual([...decodePax(Buffer.from('9 c=a=b=\n'))], [['c', 'a=b=']]);
  for (const text of ['x', '0 ', '3 =', '99 path=a\n', '-1 a=b\n', '1e1 path=b\n', '10 path=b ']) {
    assert.throws(() => decodePax(Buffer.from(text)), { code: 'E_IMAGE_CORRUPT' }, text);
  }
});

test('mutated archives end in a reason or in names and sizes that can be, never in a crash', async (t) => {
  const random = randomFrom(20261121);
  const folder = await temporaryFolder(t);
  const path = join(folder, 'mutated.tar');
  const seed = rawTar([
    { name: 'config.dump', data: Buffer.from('{}') },
    { name: 'x', type: 'x', data: Buffer.from('10 path=b\n12 size=123\n') },
    { name: 'b', data: Buffer.alloc(123, 7) },
    { name: 'L', type: 'L', data: Buffer.from(`${'l'.repeat(150)}\0`) },
    { name: 'short', data: Buffer.alloc(600) },
    { name: 'dev', type: '3', major: 226, minor: 128 },
  ]);
  let sound = 0;
  for (let round = 0; round < 600; round++) {
    const bytes = mutated(seed, random);
    await writeFile(path, random(4) === 0 ? bytes.subarray(0, random(bytes.length)) : bytes);
    try {
      await listed(path);
      sound += 1;
    } catch (error) {
      assert.ok(error instanceof KfdError && error.code === 'E_IMAGE_CORRUPT', String(error));
    }
  }
  assert.ok(sound > 20, `${sound} were sound: the mutations reach nothing`);
});
