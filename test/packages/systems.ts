/** Systems on which the packages are installed, each in a sandbox on this host. */

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from '../unit/paths.js';

export interface System {
  readonly name: string;
  /** Folder of its root file system. */
  readonly root: string;
  /** Why it is not here. */
  readonly skip: string | false;
}

/** This host, and the Debian of the guest. */
export const systems: readonly System[] = [
  { name: 'this host', root: '/', skip: false },
  { name: 'Debian 13', ...guestRoot() },
];

function guestRoot(): Omit<System, 'name'> {
  const script = 'set -e; . test/lab/lib.sh; . test/lab/parts.sh; rootfs_dir';
  const root = execFileSync('bash', ['-c', script], { cwd: repository, encoding: 'utf8' }).trim();
  return { root, skip: !existsSync(root) && 'it was not made: npm run setup makes it' };
}

/** Runs a shell script on a system, in the sandbox of test/packages/sandbox.sh: /build is the folder build. */
export function inSandbox({ root }: System, script: string) {
  const sandbox = join(repository, 'test/packages/sandbox.sh');
  const words = [root, join(repository, 'build'), script];
  const { status, stdout, stderr } = spawnSync(sandbox, words, { encoding: 'utf8' });
  return { status, stdout, stderr };
}
