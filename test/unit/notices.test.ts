import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { notices } from '../../src/bundle/notices.js';
import { temporaryFolder } from './paths.js';

test('a package whose licence is not known, or has no text, is not bundled', async (t) => {
  const folder = join(await temporaryFolder(t), 'node_modules/some');
  const module = join(folder, 'index.js');
  const licensed = (license: string) =>
    writeFile(join(folder, 'package.json'), JSON.stringify({ version: '1.0.0', license }));
  await mkdir(folder, { recursive: true });
  await licensed('SSPL-1.0');
  assert.throws(() => notices([module]), /some: licence SSPL-1\.0/);
  await licensed('MIT');
  assert.throws(() => notices([module]), /some: there is no licence text/);
  await writeFile(join(folder, 'LICENSE'), 'do as you like');
  assert.match(notices([module]), /^some 1\.0\.0, MIT\n\ndo as you like$/m);
});
