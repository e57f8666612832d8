/** Checks of CRIU: its release, and whether it works on this kernel. */

import { join } from 'node:path';
import type { Run } from '../../os/exec.js';
import { readTextIfAny } from '../../os/files.js';
import { askVersion, isOlder, parseVersion, type ToolVersion } from '../../runtime/versions.js';
import { type Check, type Finding, fail, ok, warn } from './finding.js';

/** The first CRIU that knows kernels without UDP-Lite, and the first of these (cockpit-project/bots, issue 9273). */
const withoutUdpLite = { criu: '4.2.1', kernel: '7.1' } as const;

export const criu: Check = async ({ root, run, mend }) => {
  const version = await askVersion(run, 'criu');
  const hint = mend.install('criu', '4.0 or later');
  if (typeof version === 'string') return [fail('criu', version, hint)];
  if (version.major < 4) {
    const why = 'older releases have no plugin hook for device checkpoints';
    return [fail('criu', `${version.text}: too old`, `${hint}: ${why}`)];
  }
  const check = await run('criu', ['check'], { timeoutMs: 30_000 });
  const isPassed = check?.status === 0;
  const newer = mend.install('criu', `${withoutUdpLite.criu} or later`);
  const found = ok('criu', version.text);
  if (await isOlderThanKernel(root, version)) return [found, olderFinding(isPassed, newer)];
  if (isPassed) return [found, ok('criu check', 'passed')];
  const output = `${check?.stdout ?? ''}\n${check?.stderr ?? ''}`;
  const line = output
    .split('\n')
    .find((text) => /\bError\b/.test(text))
    ?.trim();
  const all = 'run "sudo criu check" for all reasons; criu must be newer than the kernel';
  return [found, fail('criu check', line ?? 'failed', all)];
};

/** Every dump of such a CRIU fails, unless the distribution has mended it. `criu check` makes the same call. */
async function isOlderThanKernel(root: string, version: ToolVersion): Promise<boolean> {
  const release = await readTextIfAny(join(root, 'proc/sys/kernel/osrelease'));
  const kernel = parseVersion(release ?? '');
  if (kernel === undefined || isOlder(kernel, withoutUdpLite.kernel)) return false;
  return isOlder(version, withoutUdpLite.criu);
}

function olderFinding(isPassed: boolean, hint: string): Finding {
  const { criu: release, kernel } = withoutUdpLite;
  const message = `Linux ${kernel} and later have no UDP-Lite, which CRIU knows from ${release} on`;
  return isPassed
    ? warn('criu check', `passed, but ${message}: was it mended by the distribution?`, hint)
    : fail('criu check', `${message}: every checkpoint fails`, hint);
}

const trackingOf = (run: Run) =>
  run('criu', ['check', '--feature', 'mem_dirty_track'], { timeoutMs: 30_000 });

/** Whether the kernel tells which pages of a process have changed, so that podman makes pre-checkpoints. */
export async function tracksMemory(run: Run): Promise<boolean> {
  return (await trackingOf(run))?.status === 0;
}

/** podman refuses --pre-checkpoint and --with-previous where the kernel does not tell which pages have changed. */
export const precopy: Check = async ({ run }) => {
  const name = 'pre-checkpoint';
  const check = await trackingOf(run);
  if (check === undefined) return []; // the check of CRIU says so
  if (check.status === 0) return [ok(name, 'this kernel tracks changed memory')];
  const message = 'this kernel does not track changed memory, so podman refuses --pre-checkpoint';
  return [warn(name, message, 'leave out --pre-checkpoint and --with-previous')];
};
