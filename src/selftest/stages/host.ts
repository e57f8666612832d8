/** Stage host: everything that `check` knows, what the hardware is, and who else uses the GPU. Nothing is opened. */

import { readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { runFolder } from '../../criu/state-folder.js';
import { KfdError } from '../../errors.js';
import type { Bench } from '../bench.js';
import type { Facts, GpuFacts } from '../facts.js';
import type { Stage, StageWork } from '../stage.js';
import { type GpuUser, gpuUsers } from '../users.js';

/** A line of `check`. */
export interface Finding {
  readonly name: string;
  readonly status: 'ok' | 'warn' | 'fail';
  readonly message: string;
  readonly hint?: string;
}

export interface HostStageOptions {
  readonly bench: Bench;
  readonly facts: Facts;
  readonly root: string;
  /** The findings of `check`. */
  readonly findings: () => Promise<readonly Finding[]>;
  /** Others may use the GPUs meanwhile. */
  readonly allowOthers: boolean;
}

export function hostStage(options: HostStageOptions): Stage {
  return { name: 'host', usesGpu: false, run: (work) => examine(options, work) };
}

async function examine(options: HostStageOptions, work: StageWork): Promise<void> {
  const { bench, facts } = options;
  const findings = await options.findings();
  for (const { name, status, message } of findings) {
    work.step({ name: `check: ${name}`, note: `${status}: ${message}` });
  }
  const failed = findings.find(({ status }) => status === 'fail');
  if (failed !== undefined) {
    throw new KfdError('E_HOST', `${failed.name}: ${failed.message}`, {
      ...(failed.hint !== undefined && { hint: failed.hint }),
    });
  }
  if (bench.gpus.length === 0) {
    throw new KfdError('E_NO_GPU', 'no GPU that KFD can use', {
      hint: 'see the kernel log for amdgpu; check that KFD supports the GPU',
    });
  }
  const { iommu, numa_nodes: nodes } = facts.host;
  work.step({ name: 'iommu', note: iommu });
  work.step({ name: 'numa', note: nodes === 1 ? '1 node' : `${nodes} nodes` });
  for (const { ordinal } of bench.gpus) {
    const gpu = facts.gpus[ordinal];
    if (gpu !== undefined) work.step({ name: `gpu ${ordinal}`, note: hardware(gpu) });
  }
  await refuseOthers(options, work);
  await refuseSessions(options);
  await refuseFullDisk(bench);
}

function hardware(gpu: GpuFacts): string {
  const mode = [gpu.compute_partition, gpu.memory_partition].filter((one) => one !== undefined);
  return [
    gpu.large_bar ? 'large BAR' : 'no large BAR: the CPU sees a part of its VRAM',
    gpu.svm ? 'SVM' : 'no SVM',
    ...(mode.length > 0 ? [`mode ${mode.join(' ')}`] : []),
    ...(gpu.partition ? ['a partition of its device'] : []),
    ...(gpu.hive ? ['in a hive'] : []),
    ...(gpu.numa_node === undefined ? [] : [`NUMA node ${gpu.numa_node}`]),
    ...(gpu.pci_speed === undefined ? [] : [`PCIe ${gpu.pci_speed} x${gpu.pci_width ?? '?'}`]),
  ].join(', ');
}

async function refuseOthers(options: HostStageOptions, work: StageWork): Promise<void> {
  const users = await gpuUsers(options.root, options.bench.gpus, process.pid);
  if (users.length === 0) return;
  const who = users.map(told).join(', ');
  if (options.allowOthers) return work.step({ name: 'others', note: who });
  throw new KfdError('E_HOST', `others use the GPU: ${who}`, {
    hint: 'stop them first; or add --allow-others, at the risk of a reset that ends their work',
  });
}

function told({ pid, comm, by }: GpuUser): string {
  return `${comm} (pid ${pid}, ${by === 'kfd' ? 'KFD' : 'render node'})`;
}

/** A session of somebody else has memory for copies and SDMA to itself. */
async function refuseSessions({ root }: HostStageOptions): Promise<void> {
  const names = await readdir(join(root, runFolder)).catch((): string[] => []);
  const sessions = names.filter((name) => /^\d+$/.test(name));
  if (sessions.length === 0) return;
  throw new KfdError('E_HOST', `checkpoints or restores run: pid ${sessions.join(', ')}`, {
    hint: 'wait for them: "kfd-checkpoint sessions" lists them',
  });
}

/** CRIU's images beside the contents: the host memory of a small program. */
const imageBytes = 64 << 20;

/** A checkpoint has all contents, and an archive of it has them once more. */
async function refuseFullDisk({ folder, gpus, bytes }: Bench): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const needed = 2 * (bytes * gpus.length + imageBytes);
  if (bavail * bsize >= needed) return;
  const mib = (value: number) => `${Math.ceil(value / (1 << 20))} MiB`;
  throw new KfdError('E_HOST', `${folder}: ${mib(bavail * bsize)} free, ${mib(needed)} needed`, {
    hint: 'set TMPDIR to a larger file system, or give a smaller --size',
  });
}
