import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { walkArchive } from '../../src/archive/tar.js';
import { blockBytes, decodeTarHeader } from '../../src/archive/tar-header.js';
import { KfdError } from '../../src/errors.js';
import { zstdProgram } from './archive-builder.js';
import { temporaryFolder } from './paths.js';
import { randomFrom } from './random.js';
import { checksummed, mutated, paxRecords as pax, rawTar } from './raw-tar.js';

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
  await walkArchive(path, options, async ({ name, size }, content) => {
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

/** Plain and compressed. */
async function refused(t: TestContext, bytes: Buffer, message: RegExp): Promise<void> {
  for (const form of [bytes, gzipSync(bytes)]) {
    await assert.rejects(listed(await file(t, form)), { code: 'E_IMAGE_CORRUPT', message });
  }
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
    execFileSync('zstd', ['-q', path, '-o', `${path}.zst`]);
    execFileSync('gzip', [path]);
    for (const end of ['gz', 'zst']) {
      assert.deepEqual(await listed(`${path}.${end}`), contents, `${format} in ${end}`);
    }
  }
});

test('contents nobody asks for are not read', async (t) => {
  const bytes = rawTar([
    { name: 'a', data: Buffer.alloc(4096, 1) },
    { name: 'b', data: Buffer.from('b') },
  ]);
  const names: string[] = [];
  await walkArchive(await file(t, bytes), options, async ({ name }) => {
    names.push(name);
  });
  assert.deepEqual(names, ['a', 'b']);
});

test('sizes beyond 8 GiB are known, in base 256 and in pax, and must be there', async (t) => {
  const big = rawTar([{ name: 'big', size: 2 ** 40 }]);
  assert.equal(decodeTarHeader(big.subarray(0, blockBytes))?.size, 2 ** 40);
  await refused(t, big, /the end is missing/);
  const large = rawTar([
    { name: 'pax', type: 'x', data: pax('size=109951162777') },
    { name: 'big', size: 0 },
  ]);
  await refused(t, large, /the end is missing/);
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
    /not a ustar header|not a tar archive/,
  );
  await refused(
    t,
    bent((block) => block.write('0000009', 124)),
    /not octal/,
  );
  await refused(
    t,
    bent((block) => block.write('S', 156)),
    /an entry of type "S"/,
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
  const entry = { name: 'inside' };
  const away = /a name that leaves the archive/;
  const long = { name: 'L', type: 'L', data: Buffer.from('/etc/passwd\0') };
  await refused(t, rawTar([{ name: 'x', type: 'x', data: pax('path=../outside') }, entry]), away);
  await refused(t, rawTar([long, entry]), away);
  const nameless = { name: 'L', type: 'L', data: Buffer.from('\0') };
  await refused(
    t,
    rawTar([nameless, { name: 'checkpoint/kfd-state-0.img/', type: '5' }]),
    /an empty name/,
  );
  await refused(t, rawTar([{ name: 'a' }, { name: './a' }]), /a is there twice/);
  const empty = { name: 'x', type: 'x', data: pax('path=') };
  assert.deepEqual(await listed(await file(t, rawTar([empty, entry]))), { inside: '' });
});

test('what other readers of tar see differently is refused', async (t) => {
  const data = Buffer.from('data');
  const header = (name: string, bend: (block: Buffer) => void): Buffer => {
    const block = Buffer.from(rawTar([{ name }]).subarray(0, blockBytes));
    bend(block);
    return checksummed(block);
  };
  const ended = (...blocks: readonly Buffer[]) => Buffer.concat([...blocks, Buffer.alloc(1024)]);
  const x = (...records: string[]) => ({ name: 'x', type: 'x', data: pax(...records) });
  const contents = /a link, folder or device with contents/;
  for (const type of '123456') {
    await refused(t, rawTar([{ name: 'a', type, data }]), contents);
    await refused(t, rawTar([x('size=512'), { name: 'a', type }]), contents);
  }
  for (const type of ['7', 'A', 'D', 'M', 'V', 'Z', ' ']) {
    await refused(t, rawTar([{ name: 'a', type, data }]), /an entry of type/);
  }
  const contradiction = /headers that contradict each other/;
  const long = { name: 'L', type: 'L', data: Buffer.from('b\0') };
  await refused(t, rawTar([x('path=b'), long, { name: 'a' }]), contradiction);
  await refused(t, rawTar([long, x('path=b'), { name: 'a' }]), contradiction);
  await refused(t, rawTar([long, long, { name: 'a' }]), contradiction);
  await refused(t, rawTar([x('size=4'), x('mtime=1'), { name: 'a' }]), contradiction);
  const global = { name: 'g', type: 'g', data: pax('comment=x') };
  await refused(t, rawTar([x('path=b'), global, { name: 'a' }]), contradiction);
  await refused(t, rawTar([x('path=b')]), /a header without its entry/);
  await refused(t, rawTar([x('path=b\0c'), { name: 'a' }]), /a name with a zero byte/);
  await refused(t, rawTar([{ name: 'a/' }]), /a file with the name of a folder/);
  await refused(t, rawTar([{ name: 'a/', type: '\0' }]), /a file with the name of a folder/);
  const behind = Buffer.concat([rawTar([{ name: 'a' }]), rawTar([{ name: 'b' }])]);
  await refused(t, behind, /something behind its end/);
  const tail = Buffer.concat([rawTar([{ name: 'a' }]), Buffer.alloc(2 << 20)]);
  await refused(t, tail, /something behind its end/);
  const star = header('a', (block) => block.write('tar\0', 508, 'latin1'));
  await refused(t, ended(star), /a header of star/);
  const oldGnu = header('a', (block) => block.write('ustar  \0prefix', 257).toString());
  oldGnu.write('checkpoint', 345);
  await refused(t, ended(checksummed(oldGnu)), /not octal/);
  const tab = header('a', (block) => block.write('\t0000000000', 124));
  await refused(t, ended(tab), /not octal/);
  for (const first of [0x81, 0xbf, 0xc0, 0xfe]) {
    const block = header('a', (one) => one.fill(0, 124, 136).writeUInt8(first, 124));
    await refused(t, ended(block), /too large/);
  }
});

test('an entry that takes the place of another when it is unpacked is refused', async (t) => {
  const twice = /is there twice/;
  const [file, folder, link] = [
    { name: 'c/a' },
    { name: 'c/a', type: '5' },
    { name: 'c/a', type: '2' },
  ];
  for (const pair of [
    [file, link],
    [link, file],
    [file, folder],
    [folder, file],
    [link, folder],
  ]) {
    await refused(t, rawTar(pair), twice);
  }
  assert.deepEqual(await listed(await filed(t, [folder, { ...folder, name: './c/a/' }])), {});
  await refused(t, rawTar([file, { name: 'c', type: '1' }]), /takes the place of a folder/);
  await refused(t, rawTar([{ name: 'c', type: '2' }, file]), /lies below a file or link/);
  await refused(t, rawTar([{ name: 'c' }, file]), /lies below a file or link/);
  await refused(t, rawTar([{ name: '.', type: '2' }]), /a name of the archive itself/);
  await refused(t, rawTar([{ name: `${'a/'.repeat(16)}b` }]), /more folders/);
});

test('links and special files where files of a checkpoint belong are named', async (t) => {
  const names = async (...entries: Parameters<typeof rawTar>[0]) =>
    (await walkArchive(await filed(t, entries), options, async () => undefined)).misplaced;
  const link = (name: string) => ({ name, type: '2' });
  assert.deepEqual(await names(link('checkpoint/parent'), link('artifacts/x')), []);
  const wrong = ['checkpoint/core-1.img', './config.dump', 'spec.dump'];
  assert.deepEqual(await names(...wrong.map(link)), wrong);
  assert.deepEqual(await names(link('checkpoint')), ['checkpoint']);
  const folder = { name: 'checkpoint/kfd-manifest.json', type: '5' };
  assert.deepEqual(await names({ name: 'checkpoint/', type: '5' }, folder), [folder.name]);
  const others = Array.from({ length: 30 }, (_, i) => link(`x${i}`));
  assert.deepEqual(await names(...others, link('checkpoint/a')), ['checkpoint/a']);
});

async function filed(t: TestContext, entries: Parameters<typeof rawTar>[0]): Promise<string> {
  return file(t, rawTar(entries));
}

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
