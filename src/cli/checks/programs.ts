/** Checks of other programs: CRIU, the OCI runtimes and podman. */

import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { parseCrun, versionOf } from '../../runtime/versions.js';
import { type Check, type CheckContext, type Finding, fail, ok, warn } from './finding.js';

export const criu: Check = async ({ run }) => {
  const version = await versionOf(run, 'criu');
  if (version === undefined) {
    return [fail('criu', 'not in PATH', 'install criu 4.0 or later')];
  }
  if (version.major < 4) {
    const hint =
      'install criu 4.0 or later: older releases have no plugin hook for device checkpoints';
    return [fail('criu', `${version.text}: too old`, hint)];
  }
  const check = await run('criu', ['check'], { timeoutMs: 30_000 });
  if (check?.status === 0) return [ok('criu', version.text), ok('criu check', 'passed')];
  const output = `${check?.stdout ?? ''}\n${check?.stderr ?? ''}`;
  const line = output
    .split('\n')
    .find((text) => /\bError\b/.test(text))
    ?.trim();
  const hint = 'run "criu check" as root; criu must be newer than the kernel';
  return [ok('criu', version.text), fail('criu check', line ?? 'failed', hint)];
};

/**
 * podman needs one OCI runtime that can checkpoint, so a failure of the other one becomes a warning.
 * containerd needs runc.
 */
export const runtimes: Check = async (context) => {
  const runc = await runcFinding(context);
  if (!context.engines.podman) return [runc];
  const crun = await crunFinding(context);
  if (context.engines.containerd && runc.status === 'fail') return [asWarning(crun), runc];
  if (crun.status === 'fail' && runc.status === 'fail') return [crun, runc];
  return [crun, runc].map(asWarning);
};

function asWarning(finding: Finding): Finding {
  return finding.status === 'fail' ? { ...finding, status: 'warn' } : finding;
}

async function crunFinding({ root, run }: CheckContext): Promise<Finding> {
  const output = await run('crun', ['--version']);
  const crun = output?.status === 0 ? parseCrun(output.stdout) : undefined;
  if (crun === undefined) return fail('crun', 'not in PATH', 'install crun with CRIU support');
  if (!crun.hasCriu) {
    const hint = 'install a crun built with CRIU ("+CRIU" in crun --version), or use runc';
    return fail('crun', `${crun.text}: built without CRIU`, hint);
  }
  if (!(await hasLibcriu(root, run))) {
    return fail(
      'crun',
      `${crun.text}: libcriu.so.2 is missing`,
      'install libcriu2 (crun loads it)',
    );
  }
  return ok('crun', `${crun.text}, with libcriu.so.2`);
}

async function hasLibcriu(root: string, run: CheckContext['run']): Promise<boolean> {
  const cache = await run('ldconfig', ['-p']);
  if (cache?.status === 0 && /^\s*libcriu\.so\.2\s/m.test(cache.stdout)) return true;
  // Without ldconfig in PATH (no root, musl): the folders that distributions use.
  const folders = [
    'lib',
    'lib64',
    'usr/lib',
    'usr/lib64',
    'usr/lib/x86_64-linux-gnu',
    'usr/local/lib',
  ];
  for (const folder of folders) {
    const found = await access(join(root, folder, 'libcriu.so.2')).then(
      () => true,
      () => false,
    );
    if (found) return true;
  }
  return false;
}

async function runcFinding({ run }: CheckContext): Promise<Finding> {
  const version = await versionOf(run, 'runc');
  return version === undefined
    ? fail('runc', 'not in PATH', 'install runc 1.1 or later to run containers with it')
    : ok('runc', version.text);
}

export const podman: Check = async ({ run }) => {
  const version = await versionOf(run, 'podman');
  if (version === undefined) {
    return [warn('podman', 'not in PATH', 'install podman 4.3 or later')];
  }
  const isOld = version.major < 4 || (version.major === 4 && version.minor < 3);
  return isOld
    ? [warn('podman', `${version.text}: older than any tested`, 'install podman 4.3 or later')]
    : [ok('podman', version.text)];
};
