/** Containers that stand still, whatever podman says. */

import { readFileSync } from 'node:fs';
import { isOlder, parseVersion } from '../../../src/runtime/versions.js';
import { attempt, run } from '../../e2e/support/command.js';

/**
 * The problem of one that does so. Podman 6 freezes a container that goes on while its checkpoint is made; those before
 * do not.
 */
export async function standsStill(): Promise<string> {
  const version = parseVersion(await run('podman', '--version'));
  const isSix = version !== undefined && !isOlder(version, '6.0');
  return isSix ? 'it stands still under podman 6' : 'it stands still';
}

/** Whether the first process of podman's container is in a frozen cgroup. False with cgroup v1. */
export async function isFrozen(container: string): Promise<boolean> {
  const { stdout: pid } = await attempt('podman', 'inspect', '-f', '{{.State.Pid}}', container);
  const [, group] = /^0::(\/.*)$/m.exec(textOf(`/proc/${pid}/cgroup`)) ?? [];
  return /^frozen 1$/m.test(textOf(`/sys/fs/cgroup${group}/cgroup.events`));
}

/** Empty where it has just gone. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
