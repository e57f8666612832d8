/** The mutation tester for native code, with a program that stands for the native tests. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fateOf, measuredCases } from '../mutate/native-cases.js';
import { temporaryFolder } from './paths.js';

/** Two quick cases and one that takes longer than those that share a process. */
const core = `#!/bin/sh
echo "$*" >>calls
for arg; do
	case $arg in
		-ltc) printf '%s\\n' '[doctest] all test case names' ==== 'a: b, c' 'd: e' 'f: slow' '[doctest] 3'; exit ;;
		-tc=*) names=,\${arg#-tc=}, ;;
	esac
done
note() { if [ "\${KFD_MUTANT_MET-}" ]; then printf '%s\\n' "$@" >>"$KFD_MUTANT_MET"; fi; }
case $names in *,a:\\ b\\\\,\\ c,*) note 1 2; [ "\${KFD_MUTANT-}" != 1 ] || exit 1 ;; esac
case $names in *,d:\\ e,*) note 1 3; [ "\${KFD_MUTANT-}" != 3 ] || kill -SEGV $$ ;; esac
case $names in *,f:\\ slow,*) note 2 3 4; sleep 0.3; [ "\${KFD_MUTANT-}" != 4 ] || exit 1 ;; esac
`;

test('a native guard is judged by the cases that come to it, the quick ones of them at once', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'core_test'), core, { mode: 0o755 });
  const cases = measuredCases(folder);
  assert.deepEqual(
    cases.map(({ name, met }) => [name, [...met]]),
    [
      ['a: b, c', [1, 2]],
      ['d: e', [1, 3]],
      ['f: slow', [2, 3, 4]],
    ],
  );
  // How long they took depends on the machine.
  const timed = cases.map((one, index) => ({ ...one, ms: index === 2 ? 300.7 : 5.5 - index }));
  await writeFile(join(folder, 'calls'), '');
  const fates = [1, 2, 3, 4, 5].map((id) => fateOf(folder, id, timed));
  assert.deepEqual(fates, ['failed', 'unnoticed', 'failed', 'failed', 'unmet']);
  const calls = readFileSync(join(folder, 'calls'), 'utf8').match(/-tc=.* -aa=1/g);
  assert.deepEqual(calls, [
    '-tc=d: e,a: b\\, c -aa=1',
    '-tc=a: b\\, c -aa=1',
    '-tc=f: slow -aa=1',
    '-tc=d: e -aa=1',
    '-tc=f: slow -aa=1',
  ]);
  await writeFile(join(folder, 'core_test'), core.replaceAll('note 1 3;', 'echo why; exit 1;'));
  assert.throws(() => measuredCases(folder), /fails without a fault: d: e\nwhy/);
});
