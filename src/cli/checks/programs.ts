/** Checks of podman and of the OCI runtimes. */

import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { askVersion, isOlder, parseCrun, versionIn } from '../../runtime/versions.js';
import { hasCgroup2 } from './cgroup.js';
import { type Check, type CheckContext, type Finding, fail, ok, warn } from './finding.js';

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

async function crunFinding({ root, run, mend }: CheckContext): Promise<Finding> {
  const hint = mend.install('crun', 'one with "+CRIU" in "crun --version"');
  const output = await run('crun', ['--version']);
  const crun = versionIn(output);
  if (typeof crun === 'string') return fail('crun', crun, hint);
  if (parseCrun(output?.stdout ?? '')?.hasCriu !== true) {
    return fail('crun', `${crun.text}: built without CRIU`, `${hint}; or use runc`);
  }
  if (!(await hasLibcriu(root, run))) {
    const needed = mend.install('libcriu', 'what crun loads');
    return fail('crun', `${crun.text}: libcriu.so.2 is missing`, needed);
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

async function runcFinding({ run, mend }: CheckContext): Promise<Finding> {
  const version = await askVersion(run, 'runc');
  return typeof version === 'string'
    ? fail('runc', version, mend.install('runc', '1.1 or later'))
    : ok('runc', version.text);
}

/** podman 6 ends at once where there is no cgroup v2, also when it is asked for its version. */
export const podman: Check = async ({ root, run, mend }) => {
  const version = await askVersion(run, 'podman');
  const hint = mend.install('podman', '4.3 or later');
  const isUnable = (text: string) => {
    const message = `${text} runs on cgroup v2 only, and this host has cgroup v1`;
    return [fail('podman', message, mend.bootWith('systemd.unified_cgroup_hierarchy=1'))];
  };
  if (typeof version === 'string') {
    if (/cgroups v1 not supported/i.test(version)) return isUnable('this podman');
    return [warn('podman', version, hint)];
  }
  if (version.major >= 6 && !(await hasCgroup2(root))) return isUnable(version.text);
  return isOlder(version, '4.3')
    ? [warn('podman', `${version.text}: older than any tested`, hint)]
    : [ok('podman', version.text)];
};
