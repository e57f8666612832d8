/**
 * The tree that native guards are taken away in: build/mutate-native has native with a switch for each guard, and its
 * build. Files that are as they were are not written: the next run compiles what has changed.
 */

import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { repository } from '../unit/paths.js';
import { withSwitches } from './native-guards.js';

const work = join(repository, 'build/mutate-native');
const native = join(work, 'native');
export const build = join(work, 'build/native');

/** KFD_MUTANT: the guard that is away. KFD_MUTANT_MET: a file for the numbers of those that are met. */
const header = `#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
inline void kfd_mutant_met(int id) {
  static const char* const path = std::getenv("KFD_MUTANT_MET");
  static std::atomic<bool> met[1 << 13];
  if (path == nullptr || met[id].exchange(true)) return;
  const int before = errno;
  // Opened for each: tests count the descriptors of the process.
  const int fd = ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  ::dprintf(fd, "%d\\n", id);
  ::close(fd);
  errno = before;
}
inline bool kfd_mutant(int id) {
  static const char* const active = std::getenv("KFD_MUTANT");
  static const int number = active == nullptr ? -1 : std::atoi(active);
  kfd_mutant_met(id);
  return number == id;
}
#define KFD_MUTANT(id) kfd_mutant(id)
`;

export interface Planted {
  readonly id: number;
  readonly file: string;
  readonly line: number;
  readonly condition: string;
}

/** Makes the tree with the guards of these folders of native/core. */
export function plant(folders: readonly string[]): Planted[] {
  mkdirSync(native, { recursive: true });
  for (const name of ['test', 'node_modules', 'proto']) {
    if (!existsSync(join(work, name))) symlinkSync(join(repository, name), join(work, name));
  }
  renew(join(work, 'mutant.h'), header);
  const planted: Planted[] = [];
  const files = filesBelow(join(repository, 'native'));
  for (const file of files) {
    const text = readFileSync(join(repository, 'native', file));
    const [, folder] = /^core\/(\w+)\/[^/]+\.cc$/.exec(file) ?? [];
    const isChosen = folder !== undefined && folders.includes(folder);
    renew(join(native, file), isChosen ? switched(file, text.toString(), planted) : text);
  }
  const known = new Set(files);
  for (const file of filesBelow(native)) if (!known.has(file)) rmSync(join(native, file));
  return planted;
}

/** Adds the guards of a file to `planted`. */
function switched(file: string, source: string, planted: Planted[]): string {
  const { text, guards } = withSwitches(source, planted.length);
  if (guards.length === 0) return source;
  planted.push(...guards.map((guard) => ({ ...guard, file: `native/${file}` })));
  return `#include "${join(work, 'mutant.h')}"\n#line 1\n${text}`;
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}

function renew(path: string, contents: string | Buffer): void {
  if (existsSync(path) && readFileSync(path).equals(Buffer.from(contents))) return;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, contents);
}

/** Builds core_test. */
export function compile(): void {
  const cmake = (...args: readonly string[]) =>
    execFileSync('cmake', args, { stdio: ['ignore', 'ignore', 'inherit'] });
  cmake('-S', native, '-B', build, '-G', 'Ninja', '-DKFD_BENCH=OFF');
  cmake('--build', build, '--target', 'core_test');
}
