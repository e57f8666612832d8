/** Tests that ask programs of others are skipped where these are not installed. */

import { spawnSync } from 'node:child_process';

/** Why a program cannot be asked here; false when it can. */
export function isMissing(program: string): string | false {
  const path = `${process.env['PATH']}:/usr/sbin`;
  const found = spawnSync('sh', ['-c', `command -v ${program}`], { env: { PATH: path } });
  return found.status === 0 ? false : `${program} is not installed: npm run setup installs it`;
}
