/** Headers and pax records by themselves. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodePax, withoutRecord } from '../../src/archive/pax.js';
import { blockBytes, decodeTarHeader, withDevice, withSize } from '../../src/archive/tar-header.js';
import { paxRecords as pax, rawTar } from './raw-tar.js';

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

const headerOf = (bend: (block: Buffer) => void, name = 'a', type = '0') =>
  Buffer.from(rawTar([{ name, type, bend }]).subarray(0, blockBytes));
const gnu = (block: Buffer) => block.write('ustar  \0', 257, 'latin1');

test('a new name of a device leaves no part of the old one, and what is no name stays', () => {
  const device = { major: 226, minor: 130 };
  const posix = headerOf((block) => block.write('folder', 345), './dri/renderD128', '3');
  assert.equal(decodeTarHeader(posix)?.name, 'folder/./dri/renderD128');
  assert.equal(decodeTarHeader(withDevice(posix, device))?.name, 'folder/./dri/renderD128');
  const renamed = withDevice(posix, device, 'short');
  assert.equal(decodeTarHeader(renamed)?.name, 'short');
  assert.deepEqual(renamed.subarray(5, 100), Buffer.alloc(95));
  const longest = '\u00fc'.repeat(49);
  assert.equal(decodeTarHeader(withDevice(posix, device, `${longest}x`))?.name, `${longest}x`);
  const long = { code: 'E_IMAGE_CORRUPT', message: 'tar: a name is too long' };
  assert.throws(() => withDevice(posix, device, `${longest}\u00fc`), long);
  // GNU tar has times there.
  const timed = headerOf((block) => gnu(block) && block.write('01234567012', 345), 'old', '3');
  const moved = withDevice(timed, device, 'new');
  assert.deepEqual(moved.subarray(257), withDevice(timed, device).subarray(257));
  assert.deepEqual(moved.toString('latin1', 345, 356), '01234567012');
});

test('a device number beyond seven octal digits is refused, in each part', () => {
  const block = headerOf(() => undefined, 'a', '3');
  const largest = 8 ** 7 - 1;
  const { devMajor, devMinor } = decodeTarHeader(
    withDevice(block, { major: largest, minor: largest }),
  ) as { devMajor: number; devMinor: number };
  assert.deepEqual([devMajor, devMinor], [largest, largest]);
  for (const [major, minor] of [
    [largest + 1, 0],
    [0, largest + 1],
  ] as const) {
    assert.throws(() => withDevice(block, { major, minor }), {
      code: 'E_IMAGE_CORRUPT',
      message: "tar: the device number 2097152 is beyond tar's format",
    });
  }
});

test('names fill their fields, and numbers of devices are those of devices', () => {
  const [name, prefix] = ['n'.repeat(100), 'p'.repeat(155)];
  const full = headerOf((block) => block.write(prefix, 345), name);
  assert.equal(decodeTarHeader(full)?.name, `${prefix}/${name}`);
  // A block without a zero byte behind the prefix.
  const filled = headerOf((block) => block.fill('x', 500).write(prefix, 345), name);
  assert.equal(decodeTarHeader(filled)?.name, `${prefix}/${name}`);
  const short = headerOf((block) => block.write(prefix.slice(1), 345), name.slice(1));
  assert.equal(decodeTarHeader(short)?.name, `${prefix.slice(1)}/${name.slice(1)}`);
  const numbered = (block: Buffer) => block.write('0000342\x000000200\0', 329, 'latin1');
  for (const [type, major, minor] of [
    ['3', 226, 128],
    ['4', 226, 128],
    ['0', 0, 0],
    ['5', 0, 0],
  ] as const) {
    const header = decodeTarHeader(headerOf(numbered, 'a', type));
    assert.deepEqual([header?.type, header?.devMajor, header?.devMinor], [type, major, minor]);
  }
  // Other writers leave there what they have.
  const garbage = headerOf((block) => block.write('garbage!', 329));
  assert.equal(decodeTarHeader(garbage)?.devMajor, 0);
  const old = headerOf((block) => block.fill(0, 156, 157));
  assert.equal(decodeTarHeader(old)?.type, '0');
});

test('a header is a whole block of a format that all readers know', () => {
  const refused = (block: Buffer, reason: string) =>
    assert.throws(() => decodeTarHeader(block), {
      code: 'E_IMAGE_CORRUPT',
      message: `tar: ${reason}`,
    });
  assert.equal(decodeTarHeader(Buffer.alloc(blockBytes)), undefined);
  refused(Buffer.alloc(blockBytes - 1), 'a header is cut');
  refused(Buffer.alloc(blockBytes + 1), 'a header is cut');
  for (const at of [0, 147, 156, 511]) {
    const block = headerOf(() => undefined);
    block[at] = (block[at] ?? 0) + 1;
    refused(block, 'wrong header checksum');
  }
  for (const magic of ['ustar\x01', 'ustax\0', 'ustax ', '\0\0\0\0\0\0']) {
    const other = headerOf((block) => block.write(magic, 257, 'latin1'));
    refused(other, 'not a ustar header');
  }
  const star = (block: Buffer) => block.write('tar\0', 508, 'latin1');
  refused(headerOf(star), 'a header of star');
  // GNU's header has no such end, and times where the other has a prefix.
  assert.equal(decodeTarHeader(headerOf((block) => gnu(block) && star(block)))?.name, 'a');
  for (const at of [345, 357]) {
    refused(
      headerOf((block) => gnu(block) && block.write('text', at)),
      'a number is not octal',
    );
    const timed = headerOf((block) => gnu(block) && block.write('01234567012', at));
    assert.equal(decodeTarHeader(timed)?.name, 'a');
  }
});

test('numbers are octal, with spaces around them or none, or binary up to 2^53', () => {
  const sizeOf = (...bytes: (string | number)[]) => {
    const field = Buffer.from(
      bytes.flatMap((part) => (typeof part === 'string' ? [...Buffer.from(part)] : [part])),
    );
    return decodeTarHeader(headerOf((block) => field.copy(block.fill(0, 124, 136), 124)))?.size;
  };
  for (const [text, size] of [
    ['', 0],
    ['            ', 0],
    ['00000000017\0', 15],
    ['  17 \0', 15],
    ['777777777777', 8 ** 12 - 1],
  ] as const) {
    assert.equal(sizeOf(text), size, text);
  }
  for (const text of ['8', '1 7', '-1', '0x1', '1\x007', '\t17', '+7']) {
    assert.throws(() => sizeOf(text), { message: 'tar: a number is not octal' }, text);
  }
  assert.equal(sizeOf(0x80, ...Array(9).fill(0), 1, 2), 258);
  assert.equal(sizeOf(0x80, 0, 0, 0, 0, 0x1f, ...Array(6).fill(0xff)), 2 ** 53 - 1);
  for (const bytes of [
    [0x80, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0],
    [0x81, ...Array(11).fill(0)],
    Array(12).fill(0xff),
  ]) {
    assert.throws(() => sizeOf(...bytes), { message: 'tar: a number is too large' });
  }
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
  assert.deepEqual(
    [...decodePax(Buffer.from('4 =\n7 \u00fc=b\n'))],
    [
      ['', ''],
      ['\u00fc', 'b'],
    ],
  );
  const refused = (reason: string) => ({ code: 'E_IMAGE_CORRUPT', message: `tar: ${reason}` });
  const cut = refused('a pax record is cut');
  const lengths = ['0 ', '1 a=b\n', '2 a=b\n', '3 =', '99 path=a\n', '-1 a=b\n', '1e1 path=b\n'];
  const others = [
    'x',
    '\n',
    '06 a=b\n',
    ' 6 a=b\n',
    '10 path=b ',
    '11 path=b\n',
    '10000000010 a=b\n',
  ];
  for (const text of [...lengths, ...others, '6 a=b\n\n', '1', '10 path=b\n9']) {
    assert.throws(() => decodePax(Buffer.from(text)), cut, text);
  }
  const nameless = refused('a pax record without "="');
  for (const text of ['6 abc\n', '6 abc\n6 a=b\n', '6 abc\n=', '3 \n']) {
    assert.throws(() => decodePax(Buffer.from(text)), nameless, text);
  }
});

test('a size is rewritten in octal or base 256, and leaves the records of pax', () => {
  const block = rawTar([{ name: 'a', size: 7 }]).subarray(0, blockBytes);
  for (const size of [0, 8 ** 11 - 1, 8 ** 11, 2 ** 49]) {
    const changed = withSize(block, size);
    assert.equal(decodeTarHeader(changed)?.size, size);
    assert.deepEqual(withSize(changed, 7), withSize(block, 7));
  }
  const kept = withoutRecord(pax('uid=7', 'size=9', 'path=b'), 'size');
  assert.deepEqual(kept, pax('uid=7', 'path=b'));
});
