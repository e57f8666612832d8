import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { cli } from './cli-context.js';
import { services } from './drained-archive.js';
import { temporaryFolder } from './paths.js';

test('flatten writes over no file, and through no link', async (t) => {
  const folder = await temporaryFolder(t);
  const [out, link] = [join(folder, 'precious.tar'), join(folder, 'link.tar')];
  writeFileSync(out, 'precious');
  symlinkSync('elsewhere', link);
  for (const output of [out, link]) {
    const archive = join(folder, 'archive.tar');
    const { code, stderr } = await cli(['flatten', '--quiet', archive, '-o', output], {
      native: services,
    });
    assert.equal(code, 1, stderr);
    assert.match(stderr, /exist/, stderr);
  }
  assert.equal(readFileSync(out, 'utf8'), 'precious');
  assert.ok(!existsSync(join(folder, 'elsewhere')));
  assert.deepEqual(readdirSync(folder).sort(), ['link.tar', 'precious.tar']);
});

test('flatten that fails leaves no output', async (t) => {
  const folder = await temporaryFolder(t);
  const out = join(folder, 'out.tar');
  const missing = join(folder, 'none.tar');
  const { code } = await cli(['flatten', '--quiet', missing, '-o', out], { native: services });
  assert.notEqual(code, 0);
  assert.deepEqual(readdirSync(folder), []);
});
