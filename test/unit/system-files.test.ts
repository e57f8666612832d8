/** What the test of the packages takes for a trace that they left. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differences, parseListing } from '../packages/system-files.js';

const listing = (text: string, contents = 'same') =>
  parseListing(text, (path) => Buffer.from(`${path} ${contents}`));

const before =
  '/usr/a\tf 644 0:0 5 1.5 \n/usr/l\tl 777 0:0 1 1.5 a\n/usr\td 755 0:0\n/etc/c\tf 600 0:0 9 2 ';

test('a system that is as before has no differences', () => {
  assert.deepEqual(differences(listing(before), listing(before)), []);
});

test('what came, went, was written, linked elsewhere or given away is named', () => {
  const after =
    '/usr/new\td 755 0:0\n/usr/l\tl 777 0:0 1 1.5 b\n/usr\td 700 0:0\n/etc/c\tf 600 7:0 9 2 ';
  const found = differences(listing(before), listing(after)).map((line) => line.split(' (')[0]);
  assert.deepEqual(found, [
    'gone: /usr/a',
    'left: /usr/new',
    'changed: /usr/l',
    'changed: /usr',
    'changed: /etc/c',
  ]);
  const touched = before.replace('5 1.5 ', '5 1.6 ');
  assert.equal(differences(listing(before), listing(touched)).length, 1);
});

test('a file of /etc may be written anew, but not with other contents', () => {
  const later = before.replace(' 9 2 ', ' 9 3 ');
  assert.deepEqual(differences(listing(before), listing(later)), []);
  assert.equal(differences(listing(before), listing(later, 'other')).length, 1);
});
