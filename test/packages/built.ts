/** The packages in build/packages, and how tests look into them. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from '../unit/paths.js';

export const packages = join(repository, 'build/packages');
const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as {
  readonly version: string;
};

export const deb = (name: string) => join(packages, `${name}_${version}_amd64.deb`);
export const rpm = (name: string) => join(packages, `${name}-${version}.x86_64.rpm`);
export const archive = join(packages, `kfd-checkpoint-${version}.tar.zst`);

/** What a program prints. Throws when it fails. */
export function output(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', maxBuffer: 64 << 20 });
}

export interface Entry {
  readonly mode: string;
  readonly owner: string;
  readonly path: string;
}

/** Files and folders of a Debian package, without the dot before each. */
export function entriesOf(path: string): Entry[] {
  const lines = output('dpkg-deb', '--contents', path).trimEnd().split('\n');
  return lines.map((line) => {
    const match = /^(\S+) (\S+) +\d+ \S+ \S+ \.(\S+)/.exec(line);
    assert.ok(match, line);
    return { mode: match[1] ?? '', owner: match[2] ?? '', path: match[3] ?? '' };
  });
}

const [, series = '', patch = ''] = /^(.*\.)(\d+)$/.exec(version) ?? [];
/** The two releases that follow, of which test/packages/newer.sh makes a package. */
export const newerVersions = [1, 2].map((step) => `${series}${Number(patch) + step}`);
export const newerDeb = (of: string) =>
  join(repository, `build/newer-packages/kfd-checkpoint_${of}_amd64.deb`);
