import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { command, readmeWith, supportPage } from '../support/page.js';
import { type Run, runIn, totalOf, withRun } from '../support/runs.js';
import { repository } from './paths.js';

const read = (name: string) => readFileSync(join(repository, name), 'utf8');
const recorded = () => JSON.parse(read('test/support/runs.json')) as Run[];

test('README.md and docs/support.md show the recorded runs', () => {
  assert.equal(read('README.md'), readmeWith(read('README.md'), recorded()), `made by: ${command}`);
  assert.equal(read('docs/support.md'), supportPage(recorded()), `made by: ${command}`);
});

const tap = `TAP version 13
# with system Debian GNU/Linux 13 (trixie), kernel 6.12.118, podman 5.4.2
# Subtest: round-trip: a child of a shell
    ok 1 - a child of a shell (crun)
    not ok 2 - a child of a shell (runc)
      ---
      error: 'ok 3 - no case'
      ...
not ok 1 - round-trip: a child of a shell
ok 2 - faults: at named points # SKIP nothing was built
    ok 1 - others (crun)
not ok 3 - faults: others
ok 4 - selftest: passes
`;

test('cases count, and a test alone that has none, or that failed although its cases did not', () => {
  const run = runIn(tap, '2026-11-27');
  assert.deepEqual(run.releases, {
    system: 'Debian GNU/Linux 13 (trixie)',
    kernel: '6.12.118',
    podman: '5.4.2',
  });
  const day = '2026-11-27';
  assert.deepEqual(run.parts, {
    'round-trip': { passed: 1, failed: 1, skipped: 0, day },
    faults: { passed: 1, failed: 1, skipped: 1, day },
    selftest: { passed: 1, failed: 0, skipped: 0, day },
  });
  assert.deepEqual(totalOf(run), { passed: 3, failed: 2, skipped: 1 });
});

test('a run without releases, or with a test without a part, is refused', () => {
  assert.throws(() => runIn(tap.replace('# with', '# without'), ''), /not a run of/);
  assert.throws(() => runIn(tap.replace('selftest: ', ''), ''), /passes: a test without a part/);
});

test('a later run replaces the parts of one with the same releases, and adds to others', () => {
  const first = runIn(tap, '2026-11-26');
  const again = runIn(
    tap.replace('    not ok 2', '    ok 2').split('ok 2 - faults')[0] ?? '',
    '2026-11-27',
  );
  const [merged, ...rest] = withRun([first], again);
  assert.deepEqual(rest, []);
  assert.equal(merged?.parts['round-trip']?.day, '2026-11-27');
  assert.equal(merged?.parts['faults']?.day, '2026-11-26');
  const other = runIn(tap.replace('5.4.2', '6.1.1'), '2026-11-27');
  assert.deepEqual(withRun([first], other), [first, { ...other, parts: other.parts }]);
});
