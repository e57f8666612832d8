/** What the report says of the host and its GPUs. Nothing here tells one host of a kind from another. */

import { readdir } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { readParameters, svmGpus } from '../gpu/driver-state.js';
import { type Host, type HostGpu, readHost } from '../gpu/host.js';
import { isPartition } from '../gpu/partitions.js';
import { gfxName } from '../gpu/properties.js';
import { readTextIfAny } from '../os/files.js';

export interface GpuFacts {
  /** Its place among the GPUs of the host, from 0 on. */
  readonly ordinal: number;
  readonly gfx: string;
  /** PCI ids, hexadecimal. */
  readonly vendor_id: string;
  readonly device_id: string;
  readonly vram_bytes: number;
  readonly compute_dies: number;
  readonly simds: number;
  readonly mec_firmware?: number;
  readonly sdma_firmware?: number;
  readonly large_bar: boolean;
  readonly svm: boolean;
  /** Whether it has links to other GPUs of this host (XGMI). */
  readonly hive: boolean;
  readonly partition: boolean;
  readonly compute_partition?: string;
  readonly memory_partition?: string;
  readonly numa_node?: number;
  readonly pci_speed?: string;
  readonly pci_width?: string;
}

export interface HostFacts {
  readonly kernel_release: string;
  readonly machine: string;
  readonly cpu?: string;
  readonly cpus: number;
  readonly memory_bytes: number;
  readonly numa_nodes: number;
  /** Kind of IOMMU domain of the first GPU as sysfs has it, such as "DMA-FQ" or "identity"; "none" without one. */
  readonly iommu: string;
  /** A hypervisor is below. */
  readonly virtual: boolean;
  readonly driver: { readonly version?: string; readonly srcversion?: string };
  readonly kfd_version?: string;
  readonly parameters: Readonly<Record<string, number>>;
}

export interface Facts {
  readonly host: HostFacts;
  readonly gpus: readonly GpuFacts[];
}

/** What is known of this host and must not be in a report. */
export function secretsOf({ hostname, gpus }: Host): string[] {
  const [short = ''] = hostname.split('.');
  const ofGpus = gpus.flatMap(({ record }) => [record.location, record.hive_id ?? '']);
  return [hostname, short, ...ofGpus];
}

/** Reads below `root`. */
export async function readFacts(
  root: string,
  kfdVersion: string | undefined,
): Promise<[Facts, Host]> {
  const host = await readHost({ root });
  const svm = await svmGpus(root);
  const gpus = await Promise.all(host.gpus.map((gpu) => gpuFacts(root, gpu, host, svm)));
  const parameters = Object.fromEntries(await readParameters(root));
  const facts: HostFacts = {
    kernel_release: host.kernelRelease,
    machine: host.machine,
    ...(host.cpu !== undefined && { cpu: host.cpu.model }),
    cpus: cpus().length,
    memory_bytes: totalmem(),
    numa_nodes: await numaNodes(root),
    iommu: await iommuOf(root, host.gpus[0]),
    virtual: await isVirtual(root),
    driver: host.driver ?? {},
    ...(kfdVersion !== undefined && { kfd_version: kfdVersion }),
    parameters,
  };
  return [{ host: facts, gpus }, host];
}

async function gpuFacts(
  root: string,
  { record, vramHidden }: HostGpu,
  host: Host,
  svm: ReadonlySet<number>,
): Promise<GpuFacts> {
  const records = host.gpus.map((one) => one.record);
  const attribute = async (name: string) =>
    (
      await readTextIfAny(join(deviceFolder(root, record.render_minor), name)).catch(
        () => undefined,
      )
    )?.trim();
  const compute = await attribute('current_compute_partition');
  const memory = await attribute('current_memory_partition');
  const node = Number((await attribute('numa_node')) ?? -1);
  const [speed, width] = [
    await attribute('current_link_speed'),
    await attribute('current_link_width'),
  ];
  return {
    ordinal: record.ordinal,
    gfx: gfxName(record.gfx_target_version),
    vendor_id: record.vendor_id.toString(16),
    device_id: record.device_id.toString(16),
    vram_bytes: record.vram_bytes,
    compute_dies: record.num_xcc,
    simds: record.simd_count,
    ...(record.fw_version !== undefined && { mec_firmware: record.fw_version }),
    ...(record.sdma_fw_version !== undefined && { sdma_firmware: record.sdma_fw_version }),
    large_bar: vramHidden !== true,
    svm: svm.has(record.gpu_id),
    hive: record.hive_id !== undefined,
    partition: isPartition(record, records),
    ...(compute !== undefined && { compute_partition: compute }),
    ...(memory !== undefined && { memory_partition: memory }),
    ...(node >= 0 && { numa_node: node }),
    ...(speed !== undefined && { pci_speed: speed }),
    ...(width !== undefined && { pci_width: width }),
  };
}

export function deviceFolder(root: string, minor: number): string {
  return join(root, `sys/class/drm/renderD${minor}/device`);
}

async function numaNodes(root: string): Promise<number> {
  const names = await readdir(join(root, 'sys/devices/system/node')).catch((): string[] => []);
  return Math.max(1, names.filter((name) => /^node\d+$/.test(name)).length);
}

async function iommuOf(root: string, gpu: HostGpu | undefined): Promise<string> {
  if (gpu === undefined) return 'none';
  const type = join(deviceFolder(root, gpu.record.render_minor), 'iommu_group/type');
  return (await readTextIfAny(type).catch(() => undefined))?.trim() ?? 'none';
}

async function isVirtual(root: string): Promise<boolean> {
  const text = (await readTextIfAny(join(root, 'proc/cpuinfo')).catch(() => undefined)) ?? '';
  return /^flags\s*:.*\bhypervisor\b/m.test(text);
}
