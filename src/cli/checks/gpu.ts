/** Checks of Node.js, of the addon, of the GPUs and of the cgroup tree. */

import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import { asKfdError, KfdError } from '../../errors.js';
import { readHost } from '../../gpu/host.js';
import { gfxName } from '../../gpu/properties.js';
import { parseVersion } from '../../runtime/versions.js';
import { size } from '../format.js';
import { type Check, fail, ok, warn } from './finding.js';

export const node: Check = async ({ nodeVersion }) => {
  const major = parseVersion(nodeVersion)?.major ?? 0;
  return major >= 20
    ? [ok('node', nodeVersion)]
    : [
        fail(
          'node',
          `${nodeVersion}: too old`,
          'install nodejs 20 or later, or the package kfd-checkpoint-node',
        ),
      ];
};

export const addon: Check = async ({ native }) => {
  try {
    native.verifier();
    return [ok('addon', 'loads')];
  } catch (error) {
    const known = asKfdError(error, 'addon');
    return [fail('addon', known.message, known.hint ?? 'install the package again')];
  }
};

export const gpus: Check = async ({ root, native }) => {
  const host = await readHost({ root });
  if (host.kfdDevice === undefined) {
    return [fail('kfd', '/dev/kfd: not on this host', 'load the amdgpu kernel driver')];
  }
  const { major, minor } = host.kfdDevice;
  const kfd = { device: `${major}:${minor}`, version: kfdVersion(native.kfdVersion) };
  const findings = [
    kfd.version instanceof KfdError
      ? fail(
          'kfd',
          kfd.version.message,
          kfd.version.hint ?? 'run as root; see the kernel log for amdgpu',
        )
      : ok('kfd', `version ${kfd.version}, device ${kfd.device}`),
  ];
  if (host.gpus.length === 0) {
    const hint = 'see the kernel log for amdgpu; check that KFD supports the GPU';
    return [...findings, fail('gpus', 'KFD has no GPU', hint)];
  }
  for (const { record, renderDevice, vramFreeBytes } of host.gpus) {
    const name = `gpu ${record.ordinal}`;
    const free = vramFreeBytes === undefined ? '' : `, ${size(vramFreeBytes)} free`;
    const model = `${gfxName(record.gfx_target_version)} at ${record.location}`;
    const text = `${model}, renderD${record.render_minor}, ${size(record.vram_bytes)} VRAM${free}`;
    findings.push(
      renderDevice === undefined
        ? fail(name, `${text}: no render node`, 'see the kernel log for amdgpu')
        : ok(name, text),
    );
  }
  return findings;
};

/** Returns errors, because hosts without a GPU and missing permissions are findings too. */
function kfdVersion(ask: () => string): string | KfdError {
  try {
    return ask();
  } catch (error) {
    return asKfdError(error, '/dev/kfd');
  }
}

export const cgroup: Check = async ({ root }) => {
  const folder = join(root, 'sys/fs/cgroup');
  try {
    await access(join(folder, 'cgroup.controllers'));
  } catch {
    return [
      warn('cgroup', 'no cgroup v2 at /sys/fs/cgroup', 'boot with the unified cgroup hierarchy'),
    ];
  }
  try {
    await access(folder, constants.W_OK);
    return [ok('cgroup', 'v2, writable')];
  } catch {
    return [fail('cgroup', '/sys/fs/cgroup: not writable', 'run as root, outside a container')];
  }
};
