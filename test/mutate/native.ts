/**
 * npm run mutate -- native: takes the guards of native/core's parsers away, one at a time, and runs the native tests.
 * Everything is built once. Prints the guards that no test misses. Status 1 below the least score.
 */

import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { repository } from '../unit/paths.js';
import { withSwitches } from './native-guards.js';

const leastScore = 85;
const work = join(repository, 'build/mutate-native');
const native = join(work, 'native');
const build = join(work, 'build/native');

/** Folders of native/core with parsers, and which folders of native/test look at them first. */
const folders: Readonly<Record<string, readonly string[]>> = {
  pages: ['pages', 'fuzz', 'transfer'],
  kfd: ['kfd', 'fuzz'],
  drm: ['drm', 'fuzz'],
  wire: ['wire', 'fuzz'],
  os: ['os', 'fuzz'],
};

const header = `#pragma once
#include <cstdlib>
inline bool kfd_mutant(int id) {
  static const char* const active = std::getenv("KFD_MUTANT");
  static const int number = active == nullptr ? -1 : std::atoi(active);
  return number == id;
}
#define KFD_MUTANT(id) kfd_mutant(id)
`;

interface Planted {
  readonly id: number;
  readonly place: string;
  readonly folder: string;
  readonly condition: string;
}

function plant(): Planted[] {
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  cpSync(join(repository, 'native'), native, { recursive: true });
  for (const name of ['test', 'node_modules', 'proto']) {
    symlinkSync(join(repository, name), join(work, name));
  }
  writeFileSync(join(work, 'mutant.h'), header);
  const planted: Planted[] = [];
  for (const folder of Object.keys(folders)) {
    const paths = readdirSync(join(native, 'core', folder)).filter((name) => name.endsWith('.cc'));
    for (const name of paths.sort()) {
      const path = join(native, 'core', folder, name);
      const { text, guards } = withSwitches(readFileSync(path, 'utf8'), planted.length);
      writeFileSync(path, `#include "${join(work, 'mutant.h')}"\n#line 1\n${text}`);
      for (const { id, line, condition } of guards) {
        planted.push({ id, folder, condition, place: `native/core/${folder}/${name}:${line}` });
      }
    }
  }
  return planted;
}

/** Whether a test fails with this guard taken away. `only`: folders of native/test; none: all. */
function isNoticed(id: number, only?: readonly string[]): boolean {
  const filter = only?.map((folder) => `*/test/${folder}/*`).join(',');
  // Only core_test is built: those start other programs.
  const others = '-sfe=*/test/criu-plugin/*,*/test/launcher/*,*/held_answer_test.cc';
  const args = ['-aa=1', others, ...(filter === undefined ? [] : [`-sf=${filter}`])];
  const env = {
    ...process.env,
    KFD_MUTANT: String(id),
    KFD_FUZZ_ITERATIONS: '120',
    KFD_FUZZ_ROUNDS: '40',
  };
  const ran = spawnSync('./core_test', args, {
    cwd: build,
    env,
    stdio: 'ignore',
    timeout: 120_000,
  });
  return ran.status !== 0;
}

const planted = plant();
const cmake = ['-S', native, '-B', build, '-G', 'Ninja', '-DKFD_BENCH=OFF'];
execFileSync('cmake', cmake, { stdio: ['ignore', 'ignore', 'inherit'] });
execFileSync('cmake', ['--build', build, '--target', 'core_test'], {
  stdio: ['ignore', 'ignore', 'inherit'],
});
if (isNoticed(-1)) {
  console.error(`mutate: ${basename(build)}: the native tests fail without a fault`);
  process.exit(1);
}
let unnoticed = 0;
for (const [index, { id, folder, place, condition }] of planted.entries()) {
  if (index % 20 === 0) process.stderr.write(`${index} of ${planted.length} guards\n`);
  if (isNoticed(id, folders[folder]) || isNoticed(id)) continue;
  unnoticed += 1;
  console.log(`${place}: ${condition}`);
}
const noticed = planted.length - unnoticed;
const score = (100 * noticed) / planted.length;
console.log(`${noticed} of ${planted.length} guards noticed: ${score.toFixed(1)} %`);
process.exitCode = score >= leastScore ? 0 : 1;
