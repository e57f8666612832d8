/** The source host and its GPUs in the report of `inspect`, as text. */

import { size, type TreeNode, table } from './format.js';
import type { InspectReport } from './inspect-report.js';

type SourceHost = NonNullable<InspectReport['host']>;

/** What is not recorded is `-`. */
export function hostTable({
  hostname,
  kernel_release,
  kfd_version,
  driver,
  cpu,
}: SourceHost): string {
  const build = driver && (driver.version ?? driver.srcversion);
  return table(
    ['HOST', 'KERNEL', 'KFD', 'DRIVER', 'CPU'],
    [[hostname, kernel_release, kfd_version, build ?? '-', cpu?.model ?? '-']],
  );
}

/** What is not recorded is missing. */
export function hostNodes(
  { hostname, kernel_release, kfd_version, driver, cpu }: SourceHost,
  kernel: InspectReport['kernel'],
): TreeNode[] {
  const nodes: TreeNode[] = [
    {
      text: `Host: ${hostname}, kernel ${kernel_release}, KFD ${kfd_version}`,
      children: [{ text: kernelText(kernel) }],
    },
  ];
  if (driver !== undefined) {
    const { version = 'without version', srcversion = 'unknown' } = driver;
    nodes.push({ text: `Driver: amdgpu ${version}, srcversion ${srcversion}` });
  }
  if (cpu !== undefined) {
    const { model, flags, xsave_bytes: bytes } = cpu;
    nodes.push({
      text: `CPU: ${model}${bytes === undefined ? '' : `, XSAVE ${bytes} bytes`}`,
      children: [{ text: `Flags: ${flags.join(' ')}` }],
    });
  }
  return nodes;
}

function kernelText(kernel: InspectReport['kernel']): string {
  if (kernel === undefined) return 'Kernel: unknown';
  return kernel.is_read
    ? 'Kernel: its driver was read'
    : `Kernel: nobody has read its driver; nearest: ${kernel.nearest_read}`;
}

type SourceGpu = NonNullable<InspectReport['gpus']>[number];

export function gpuNode({ fw_version: mec, sdma_fw_version: sdma, ...gpu }: SourceGpu): TreeNode {
  const firmware = [
    ...(mec === undefined ? [] : [`MEC ${mec}`]),
    ...(sdma === undefined ? [] : [`SDMA ${sdma}`]),
  ];
  const known = firmware.length === 0 ? '' : `, firmware: ${firmware.join(', ')}`;
  const place = `renderD${gpu.render_minor}, ${gpu.location}`;
  return { text: `${gpu.ordinal}: ${gpu.gfx}, ${size(gpu.vram_bytes)}, ${place}${known}` };
}
