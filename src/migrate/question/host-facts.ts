/** A host on the wire: src/gpu/host.ts as a document, and back. */

import * as v from 'valibot';
import type { Host, HostGpu } from '../../gpu/host.js';
import { gpuSchema, manifestLimits, manifestSchema } from '../../manifest/schema.js';

const u32 = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffff_ffff));
const bytes = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(manifestLimits.bytes));
const device = v.object({ major: u32, minor: u32 });
/** More GPUs and users than this are of no host. */
const most = { gpus: manifestLimits.gpus, sdmaUsers: 4096 } as const;

const { hostname, kernel_release, kfd_version, machine, driver, cpu } =
  manifestSchema.entries.host.entries;

const gpu = v.object({
  record: gpuSchema,
  render_device: v.exactOptional(device),
  card_device: v.exactOptional(device),
  vram_free_bytes: v.exactOptional(bytes),
  sdma_users: v.pipe(v.array(v.object({ pid: u32, queues: u32 })), v.maxLength(most.sdmaUsers)),
});

export const hostFactsSchema = v.object({
  hostname,
  kernel_release,
  machine,
  kfd_version: v.exactOptional(kfd_version),
  driver,
  cpu,
  kfd_device: v.exactOptional(device),
  gtt_limit_bytes: v.exactOptional(bytes),
  gpus: v.pipe(v.array(gpu), v.maxLength(most.gpus)),
});

export type HostFacts = v.InferOutput<typeof hostFactsSchema>;

/** Names of flags that /proc/cpuinfo of any kernel has, and no more of them than fit. */
const flagNames = (flags: ReadonlySet<string>) =>
  [...flags].filter((flag) => /^[a-z0-9_]{1,32}$/.test(flag)).slice(0, 512);

export function factsOfHost(host: Host): HostFacts {
  const { cpu: present, kfdVersion, kfdDevice, gttLimitBytes } = host;
  return {
    hostname: host.hostname.slice(0, 255),
    kernel_release: host.kernelRelease,
    machine: host.machine,
    ...(kfdVersion !== undefined && { kfd_version: kfdVersion }),
    ...(host.driver !== undefined && { driver: host.driver }),
    ...(present !== undefined && {
      cpu: {
        model: present.model,
        flags: flagNames(present.flags),
        ...(present.xsaveBytes !== undefined && { xsave_bytes: present.xsaveBytes }),
      },
    }),
    ...(kfdDevice !== undefined && { kfd_device: kfdDevice }),
    ...(gttLimitBytes !== undefined && { gtt_limit_bytes: Math.floor(gttLimitBytes) }),
    gpus: host.gpus.map(factsOfGpu),
  };
}

function factsOfGpu(gpu: HostGpu): HostFacts['gpus'][number] {
  const { record, renderDevice, cardDevice, vramFreeBytes, sdmaUsers } = gpu;
  return {
    record,
    ...(renderDevice !== undefined && { render_device: renderDevice }),
    ...(cardDevice !== undefined && { card_device: cardDevice }),
    ...(vramFreeBytes !== undefined && { vram_free_bytes: vramFreeBytes }),
    sdma_users: sdmaUsers.slice(0, most.sdmaUsers).map(({ pid, queues }) => ({ pid, queues })),
  };
}

export function hostOfFacts(facts: HostFacts): Host {
  const { cpu: known } = facts;
  return {
    hostname: facts.hostname,
    kernelRelease: facts.kernel_release,
    machine: facts.machine,
    cpu: known && {
      model: known.model,
      flags: new Set(known.flags),
      xsaveBytes: known.xsave_bytes,
    },
    kfdVersion: facts.kfd_version,
    kfdDevice: facts.kfd_device,
    driver: facts.driver,
    gttLimitBytes: facts.gtt_limit_bytes,
    gpus: facts.gpus.map((gpu) => ({
      record: gpu.record,
      renderDevice: gpu.render_device,
      cardDevice: gpu.card_device,
      vramFreeBytes: gpu.vram_free_bytes,
      sdmaUsers: gpu.sdma_users,
    })),
  };
}
