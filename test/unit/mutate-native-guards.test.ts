/** The switches of native guards are C++ that compiles, whatever a condition's type. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { withSwitches } from '../mutate/native-guards.js';

/** Conditions of types that become `bool` only when they must. */
const source = `#include <atomic>
#include <memory>
#include <stdexcept>
bool KFD_MUTANT(int id);
std::atomic<bool> stopped{false};
std::unique_ptr<int> found;
void require(bool ok, const char* reason) { if (!ok) throw std::runtime_error(reason); }
void check() {
  require(!found, "found");
  if (stopped) throw std::runtime_error("stopped");
  if (found) throw std::runtime_error("found");
}
`;

test('a native guard has its switch, whatever type its condition has', () => {
  const { text, guards } = withSwitches(source, 7);
  assert.deepEqual(
    guards.map(({ id, line, condition }) => [id, line, condition]),
    [
      [7, 7, '!ok'],
      [8, 9, '!found'],
      [9, 10, 'stopped'],
      [10, 11, 'found'],
    ],
  );
  const compiler = ['-std=c++20', '-fsyntax-only', '-Wall', '-Wextra', '-Werror', '-x', 'c++', '-'];
  execFileSync('c++', compiler, { input: text, stdio: ['pipe', 'ignore', 'inherit'] });
});
