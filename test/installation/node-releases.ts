/** The releases of Node.js on which an installation has to run, as far as they are on this machine. */

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from '../unit/paths.js';

export interface NodeRelease {
  /** Major release, such as "22". */
  readonly release: string;
  /** Path of the program. */
  readonly node: string;
  /** Why it cannot be run here. */
  readonly skip: string | false;
}

/** Each release of packaging/node.list: the one that was fetched, or the one that runs this test. */
export function nodeReleases(): readonly NodeRelease[] {
  const list = readFileSync(join(repository, 'packaging/node.list'), 'utf8');
  return [...list.matchAll(/^(\d+) /gm)].map(([, release = '']) => found(release));
}

function found(release: string): NodeRelease {
  const script = join(repository, 'packaging/node.sh');
  const { status, stdout, stderr } = spawnSync(script, ['--cached', release], { encoding: 'utf8' });
  if (status === 0) return { release, node: join(stdout.trim(), 'node'), skip: false };
  if (status !== 3) throw new Error(`${script}: status ${status}\n${stderr}`);
  const ours = process.versions.node.startsWith(`${release}.`);
  const skip = !ours && `it was not fetched: packaging/node.sh ${release} does that`;
  return { release, node: process.execPath, skip };
}
