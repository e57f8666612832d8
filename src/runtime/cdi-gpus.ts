/** Which GPUs of the host a CDI device gives a container, and under which names a container's GPUs are known here. */

import { KfdError } from '../errors.js';
import type { DeviceNumber, Host, HostGpu } from '../gpu/host.js';
import type { Cdi, CdiDevice, CdiNode } from './cdi.js';

/** The kind of GPUs in the specification that `amd-ctk cdi generate` writes. */
export const amdKind = 'amd.com/gpu';

/** GPUs whose render nodes the device has. */
export function gpusOfCdi(device: CdiDevice, host: Host): readonly HostGpu[] {
  return host.gpus.filter(
    ({ record, renderDevice }) =>
      renderDevice !== undefined &&
      device.nodes.some((node) => isNode(node, `renderD${record.render_minor}`, renderDevice)),
  );
}

/**
 * The GPUs that the name gives a container here. Throws E_NO_GPU for a name that is unknown or leads to no GPU; `from`
 * is the option that has it.
 */
export function gpusOfName(name: string, cdi: Cdi, host: Host, from: string): readonly HostGpu[] {
  const device = cdi.devices.get(name);
  if (device === undefined) {
    const [problem] = cdi.problems;
    const why = problem === undefined ? '' : ` (${problem})`;
    throw new KfdError('E_NO_GPU', `${from}: no CDI specification of this host has ${name}${why}`, {
      hint: 'run "amd-ctk cdi generate", or name the GPU by renderD128, as "kfd-checkpoint check" shows it',
    });
  }
  const gpus = gpusOfCdi(device, host);
  if (gpus.length > 0) return gpus;
  throw new KfdError('E_NO_GPU', `${from}: ${name} of ${device.file} is no GPU of this host`, {
    hint: 'run "amd-ctk cdi generate": the specification is older than the GPUs of this host',
  });
}

/** The name of AMD's kind that gives exactly this GPU; undefined when there is none. */
export function cdiNameOf(gpu: HostGpu, cdi: Cdi, host: Host): string | undefined {
  const own = [...cdi.devices.values()].filter((device) => {
    if (!device.name.startsWith(`${amdKind}=`)) return false;
    const [only, ...others] = gpusOfCdi(device, host);
    return only === gpu && others.length === 0 && foreignCards(device, [gpu], host).length === 0;
  });
  // With one GPU "all" is that GPU, too.
  return (own.find(({ name }) => !name.endsWith('=all')) ?? own[0])?.name;
}

/** Card nodes of the device that are of other GPUs than these: the specification is older than the GPUs' numbers. */
export function foreignCards(
  device: CdiDevice,
  gpus: readonly HostGpu[],
  host: Host,
): readonly HostGpu[] {
  return host.gpus.filter(
    (gpu) => !gpus.includes(gpu) && gpu.cardDevice !== undefined && hasCard(device, gpu.cardDevice),
  );
}

function hasCard(device: CdiDevice, card: DeviceNumber): boolean {
  return device.nodes.some((node) => isNode(node, `card${card.minor}`, card));
}

/** Numbers decide, as they do for engines. Without them the host's node of that name is meant. */
function isNode({ path, major, minor }: CdiNode, name: string, numbers: DeviceNumber): boolean {
  if (minor !== undefined && (major ?? 0) !== 0) {
    return major === numbers.major && minor === numbers.minor;
  }
  return path === `/dev/dri/${name}`;
}
