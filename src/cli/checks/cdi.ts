/** Check of CDI specifications: one that is older than the GPUs' numbers gives containers the nodes of other GPUs. */

import { readHost } from '../../gpu/host.js';
import { readCdi } from '../../runtime/cdi.js';
import { amdKind, foreignCards, gpusOfCdi } from '../../runtime/cdi-gpus.js';
import { type Check, type Finding, warn } from './finding.js';

const name = 'cdi';
const generate = 'run "amd-ctk cdi generate"; repeat it when GPUs or partitions change';

export const cdi: Check = async ({ root }) => {
  const { devices, problems } = await readCdi(root);
  const host = await readHost({ root });
  const findings: Finding[] = problems
    .filter((problem) => problem.includes('amd'))
    .map((problem) => warn(name, problem, generate));
  for (const device of devices.values()) {
    if (!device.name.startsWith(`${amdKind}=`)) continue;
    const gpus = gpusOfCdi(device, host);
    const subject = `${device.name} of ${device.file}`;
    const [foreign] = foreignCards(device, gpus, host);
    if (gpus.length === 0)
      findings.push(warn(name, `${subject}: is no GPU of this host`, generate));
    else if (foreign !== undefined) {
      const text = `${subject}: its card node is that of the GPU at ${foreign.record.location}`;
      findings.push(warn(name, text, generate));
    }
  }
  return findings;
};
