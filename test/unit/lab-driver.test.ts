/** The build of the real driver for the lab says what it does not know of a new kernel's. */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { repository } from './paths.js';

const folder = mkdtempSync(join(tmpdir(), 'kfd-checkpoint-lab-driver.'));
after(() => rmSync(folder, { recursive: true }));

const path = (name: string): string => join(folder, name);
const script = (name: string): string => join(repository, 'test/lab/driver', name);

/** A file of a driver, compiled, that calls these functions. */
function compile(name: string, calls: readonly string[]): void {
  const prototypes = calls.map((call) => `int ${call}(void);`).join('\n');
  writeFileSync(
    path(`${name}.c`),
    `${prototypes}\nint f(void) { return ${calls.map((call) => `${call}()`).join('+')}; }\n`,
  );
  execFileSync('gcc', ['-c', '-o', path(`${name}.o`), path(`${name}.c`)]);
}

function stubs(list: string) {
  writeFileSync(path('stubs.list'), list);
  writeFileSync(path('Module.symvers'), '0x0\tkfree\tvmlinux\tEXPORT_SYMBOL\n');
  const words = [path('driver.o'), path('Module.symvers'), path('stubs.list')];
  return spawnSync(script('stubs.sh'), words, { encoding: 'utf8' });
}

test('stubs are made of names that were looked at, and of no others', () => {
  compile('driver', ['kfree', 'smu_reset', 'surprise']);
  const unknown = stubs('# power\nsmu_reset\n');
  assert.equal(unknown.status, 1);
  assert.match(unknown.stderr, /calls what no stub is known for: surprise\n/);
  assert.equal(unknown.stdout, '');
  const known = stubs('smu_reset\nsurprise\n');
  assert.equal(known.status, 0, known.stderr);
  assert.match(known.stdout, /unsigned long smu_reset\(void\) \{ return 0; \}/);
  assert.doesNotMatch(known.stdout, /kfree/);
});

test('a call that a hook renames must be there', () => {
  compile('ring', ['sim_doorbell']);
  writeFileSync(path('hooks.list'), '# why\nring doorbell sim_doorbell it rings\n');
  const check = () =>
    spawnSync(script('hooks.sh'), [folder, path('hooks.list')], { encoding: 'utf8' });
  assert.equal(check().status, 0);
  compile('ring', ['other']);
  const gone = check();
  assert.equal(gone.status, 1);
  assert.match(gone.stderr, /^ring\.c .* does not call doorbell any more\. .*: it rings\n$/);
});
