/**
 * CRIU with upstream's plugin, of a build that /share/upstream holds, in turns with ours. The same CRIU runs for both,
 * so only the plugins differ.
 */

import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { attempt, run } from '../e2e/support/command.js';
import type { Container } from '../e2e/support/container.js';
import { criuLog, namedSessionLog, type Operation } from '../e2e/support/session.js';

export const sides = ['ours', 'upstream'] as const;
export type Side = (typeof sides)[number];

const share = '/share/upstream';
/** In memory: the share is slow. */
const criu = '/tmp/upstream/criu';
const plugins = '/tmp/upstream/plugins';
const guestCriu = '/usr/sbin/criu';
const conf = '/etc/criu/default.conf';
const rivalLine = `libdir ${plugins}\n`;

/** Mounts the build's CRIU over the guest's; returns its version. Throws when it does not run here. */
export async function mountRival(): Promise<string> {
  mkdirSync(plugins, { recursive: true });
  copyFileSync(join(share, 'criu'), criu);
  copyFileSync(join(share, 'amdgpu_plugin.so'), join(plugins, 'amdgpu_plugin.so'));
  chmodSync(criu, 0o755);
  const { status, stdout, stderr } = await attempt(criu, '--version');
  if (status !== 0) throw new Error(`BENCH_CRIU: its CRIU does not run in the guest: ${stderr}`);
  await run('mount', '--bind', criu, guestCriu);
  return /^Version: (\S+)/m.exec(stdout)?.[1] ?? stdout;
}

/** What mountRival() and use() changed, back again: ours is configured. */
export async function unmountRival(): Promise<void> {
  await use('ours');
  await attempt('umount', '--lazy', guestCriu); // a session may still be about to end
}

/** From the next container on: this side's plugin, and our hook for ours alone. */
export async function use(side: Side): Promise<void> {
  if (side === 'ours') {
    if (existsSync(conf) && readFileSync(conf, 'utf8') === rivalLine) rmSync(conf);
    await run('kfd-checkpoint', 'configure');
  } else {
    await run('kfd-checkpoint', 'configure', '--undo');
    mkdirSync(dirname(conf), { recursive: true });
    writeFileSync(conf, rivalLine);
  }
  await run('sync'); // or what was written is written back beside what is measured
}

/** Throws unless CRIU's log of the operation, which --keep keeps, is that of this side's plugin. */
export function assertSide(side: Side, job: Container, operation: Operation): void {
  const log = criuLog(job, operation);
  const found =
    namedSessionLog(log) !== undefined ? 'ours' : /amdgpu_plugin/.test(log) && 'upstream';
  if (found !== side) throw new Error(`${job.name}: ${operation}.log is not that of ${side}`);
}
