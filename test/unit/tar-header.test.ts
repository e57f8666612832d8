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
