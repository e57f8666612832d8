/** Checks of Node.js, of the addon and of the GPUs. */

import { asKfdError, KfdError } from '../../errors.js';
import { readHost } from '../../gpu/host.js';
import { gfxName } from '../../gpu/properties.js';
import { readCdi } from '../../runtime/cdi.js';
import { cdiNameOf } from '../../runtime/cdi-gpus.js';
import { parseVersion } from '../../runtime/versions.js';
import { size } from '../format.js';
import { type Check, fail, ok } from './finding.js';

const driverLog = 'run "dmesg | grep -e amdgpu -e kfd" for the driver\'s reason';

export const node: Check = async ({ nodeVersion, mend }) => {
  const major = parseVersion(nodeVersion)?.major ?? 0;
  return major >= 20
    ? [ok('node', nodeVersion)]
    : [fail('node', `${nodeVersion}: too old`, mend.install('node', '20 or later'))];
};

export const addon: Check = async ({ native, mend }) => {
  try {
    native.verifier();
    return [ok('addon', 'loads')];
  } catch (error) {
    const known = asKfdError(error, 'addon');
    return [fail('addon', known.message, known.hint ?? mend.reinstall)];
  }
};

export const gpus: Check = async ({ root, native }) => {
  const host = await readHost({ root });
  const cdi = await readCdi(root);
  if (host.kfdDevice === undefined) {
    return [fail('kfd', '/dev/kfd: not on this host', 'run "modprobe amdgpu"')];
  }
  const { major, minor } = host.kfdDevice;
  const kfd = { device: `${major}:${minor}`, version: kfdVersion(native.kfdVersion) };
  const findings = [
    kfd.version instanceof KfdError
      ? fail(
          'kfd',
          kfd.version.message,
          kfd.version.hint ?? `run "sudo kfd-checkpoint check"; ${driverLog}`,
        )
      : ok('kfd', `version ${kfd.version}, device ${kfd.device}`),
  ];
  if (host.gpus.length === 0) {
    const hint = `${driverLog}; KFD may not support the GPU`;
    return [...findings, fail('gpus', 'KFD has no GPU', hint)];
  }
  for (const gpu of host.gpus) {
    const { record, renderDevice, vramFreeBytes } = gpu;
    const known = cdiNameOf(gpu, cdi, host);
    const name = `gpu ${record.ordinal}`;
    const free = vramFreeBytes === undefined ? '' : `, ${size(vramFreeBytes)} free`;
    const model = `${gfxName(record.gfx_target_version)} at ${record.location}`;
    const names = [`renderD${record.render_minor}`, ...(known === undefined ? [] : [known])];
    const text = `${model}, ${names.join(', ')}, ${size(record.vram_bytes)} VRAM${free}`;
    findings.push(
      renderDevice === undefined
        ? fail(name, `${text}: no render node`, driverLog)
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
