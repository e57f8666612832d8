/**
 * The host: kernel, KFD, GPUs. Read from sysfs and procfs below a root folder, which tests replace. Nothing is opened
 * that counts as using a GPU.
 */

import { access, readdir, readlink } from 'node:fs/promises';
import * as os from 'node:os';
import { join } from 'node:path';
import { isMissing } from '../errors.js';
import type { Manifest, ManifestGpu } from '../manifest/schema.js';
import { readTextIfAny } from '../os/files.js';
import { type Driver, readDriver } from './driver.js';
import { firmwareOf } from './firmware.js';
import { cpuRecord, type HostCpu, readCpu } from './host-cpu.js';
import { readMemoryLimits } from './memory-limits.js';
import { hiveId, parseProperties } from './properties.js';
import type { SdmaEngines } from './sdma-slot.js';
import { readSdmaUsers, type SdmaUser } from './sdma-users.js';
import { readTakenSlots, slotsOf } from './taken-slots.js';

/** A GPU of this host. */
export interface HostGpu {
  /** As the manifest records it. */
  readonly record: ManifestGpu;
  /** Numbers of its render node; undefined without one, or when it is not accessible. */
  readonly renderDevice: DeviceNumber | undefined;
  /** Numbers of its card node. */
  readonly cardDevice?: DeviceNumber | undefined;
  /** Bytes of VRAM that KFD can still give out; undefined when the driver does not report it. */
  readonly vramFreeBytes: number | undefined;
  readonly sdmaEngines?: SdmaEngines;
  /** Processes with SDMA queues on it. */
  readonly sdmaUsers: readonly SdmaUser[];
  /** The CPU does not see all of its VRAM: there is no large BAR. */
  readonly vramHidden?: boolean;
}

export interface DeviceNumber {
  readonly major: number;
  readonly minor: number;
}

export interface Host {
  readonly hostname: string;
  readonly kernelRelease: string;
  readonly machine: string;
  /** undefined: not known, as on other machines than x86. */
  readonly cpu: HostCpu | undefined;
  /** "major.minor" of AMDKFD_IOC_GET_VERSION; undefined when it was not read. */
  readonly kfdVersion: string | undefined;
  /** undefined: no KFD here. */
  readonly kfdDevice: DeviceNumber | undefined;
  /** undefined: no KFD here. */
  readonly driver: Driver | undefined;
  /** Bytes of GTT memory that the driver gives out in all; undefined when unknown. */
  readonly gttLimitBytes: number | undefined;
  /** In topology order, ordinals 0..n-1. */
  readonly gpus: readonly HostGpu[];
}

export interface HostOptions {
  /** Root folder of `/sys`, `/proc` and `/dev`; "/" by default. */
  readonly root?: string;
  /** From the addon: no file has them. */
  readonly kfdVersion?: string | undefined;
  readonly xsaveBytes?: number | undefined;
  /** Reads the places of SDMA queues, too, where processes have some. */
  readonly sdmaSlots?: boolean;
}

/** Reads the host. A host without KFD is a normal answer, not an error. */
export async function readHost(options: HostOptions = {}): Promise<Host> {
  const root = options.root ?? '/';
  const kfdDevice = await readKfdDevice(root);
  const release = await readTextIfAny(join(root, 'proc/sys/kernel/osrelease'));
  const hostname = await readTextIfAny(join(root, 'proc/sys/kernel/hostname'));
  const gpus = kfdDevice === undefined ? [] : await readTopology(root);
  const records = gpus.map(({ record }) => record);
  const sdmaUsers =
    options.sdmaSlots === true ? await readUsers(root, gpus) : await readSdmaUsers(root);
  const { vramReserveBytes, gttBytes } = await readMemoryLimits(root, records);
  return {
    hostname: hostname?.trim() ?? os.hostname(),
    kernelRelease: release?.trim() ?? os.release(),
    machine: os.machine(),
    cpu: await readCpu(root, options.xsaveBytes),
    kfdVersion: options.kfdVersion,
    kfdDevice,
    driver: kfdDevice === undefined ? undefined : await readDriver(root),
    gttLimitBytes: gttBytes,
    gpus: gpus.map((gpu) => ({
      ...withReserve(gpu, vramReserveBytes),
      sdmaUsers: sdmaUsers.get(gpu.record.gpu_id) ?? [],
    })),
  };
}

/** Users of `gpus`, all of the host, by KFD's id, with the places of their queues as far as they can be known. */
export async function readUsers(
  root: string,
  gpus: readonly HostGpu[],
): Promise<ReadonlyMap<number, readonly SdmaUser[]>> {
  const users = await readSdmaUsers(root);
  // With several dies the driver may read beyond its MQDs (pqm_debugfs_mqds@6.12.118).
  const isSafe = gpus.every(({ record }) => record.num_xcc === 1);
  const taken = users.size > 0 && isSafe ? await readTakenSlots(root) : undefined;
  if (taken === undefined) return users;
  return new Map(
    gpus.map(({ record: { gpu_id: id }, sdmaEngines = { pcie: 0, xgmi: 0 } }) => [
      id,
      (users.get(id) ?? []).map((user) => ({
        ...user,
        slots: slotsOf(taken, user.pid, id, sdmaEngines),
      })),
    ]),
  );
}

function withReserve(gpu: HostGpu, reserveBytes: number): HostGpu {
  const free = gpu.vramFreeBytes;
  return { ...gpu, vramFreeBytes: free && Math.max(0, free - reserveBytes) };
}

/** The parts of a manifest that describe the host. Needs `kfdVersion` and `kfdDevice`. */
export function hostRecord(
  host: Host & { kfdVersion: string; kfdDevice: DeviceNumber },
): Pick<Manifest, 'host' | 'gpus' | 'devices'> {
  return {
    host: {
      hostname: host.hostname,
      kernel_release: host.kernelRelease,
      kfd_version: host.kfdVersion,
      machine: host.machine,
      ...(host.driver !== undefined && { driver: host.driver }),
      ...(host.cpu !== undefined && { cpu: cpuRecord(host.cpu) }),
    },
    gpus: host.gpus.map((gpu) => gpu.record),
    devices: {
      kfd_major: host.kfdDevice.major,
      kfd_minor: host.kfdDevice.minor,
      render: host.gpus.flatMap(({ renderDevice }) =>
        renderDevice === undefined
          ? []
          : [{ minor: renderDevice.minor, major: renderDevice.major }],
      ),
    },
  };
}

async function readKfdDevice(root: string): Promise<DeviceNumber | undefined> {
  try {
    await access(join(root, 'dev/kfd'));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  const attribute = await readDeviceNumber(join(root, 'sys/class/kfd/kfd/dev'));
  if (attribute !== undefined) return attribute;
  // The class device is missing in a container's sysfs; KFD has one minor, 0.
  const devices = (await readTextIfAny(join(root, 'proc/devices'))) ?? '';
  const major = /^\s*(\d+) kfd$/m.exec(devices.split('Block devices:')[0] ?? '')?.[1];
  return major === undefined ? undefined : { major: Number(major), minor: 0 };
}

async function readDeviceNumber(path: string): Promise<DeviceNumber | undefined> {
  const match = /^(\d+):(\d+)\s*$/.exec((await readTextIfAny(path)) ?? '');
  return match === null ? undefined : { major: Number(match[1]), minor: Number(match[2]) };
}

/** The card node of the DRM device that has the render node. A partition has a DRM device of its own. */
async function readCardDevice(folder: string): Promise<DeviceNumber | undefined> {
  const names = await readdir(folder).catch((): string[] => []);
  const card = names.find((name) => /^card\d+$/.test(name));
  return card === undefined ? undefined : readDeviceNumber(join(folder, card, 'dev'));
}

async function readTopology(root: string): Promise<HostGpu[]> {
  const nodes = join(root, 'sys/class/kfd/kfd/topology/nodes');
  let names: string[];
  try {
    names = await readdir(nodes);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
  const gpus: HostGpu[] = [];
  const inOrder = names.filter((name) => /^\d+$/.test(name)).sort((a, b) => Number(a) - Number(b));
  for (const name of inOrder) {
    const gpu = await readNode(root, join(nodes, name), gpus.length);
    if (gpu !== undefined) gpus.push(gpu);
  }
  return gpus;
}

/** One topology node; undefined for a CPU, and for a GPU whose files a device cgroup hides. */
async function readNode(root: string, node: string, ordinal: number): Promise<HostGpu | undefined> {
  const gpuId = Number((await readIfAllowed(join(node, 'gpu_id')))?.trim() ?? 0);
  const text = await readIfAllowed(join(node, 'properties'));
  if (!Number.isSafeInteger(gpuId) || gpuId === 0 || text === undefined) return undefined;
  const properties = parseProperties(text);
  const value = (key: string): number => properties.get(key) ?? 0;
  const minor = value('drm_render_minor');
  const hive = hiveId(text);
  const drm = join(root, `sys/class/drm/renderD${minor}`);
  const total =
    (await readNumber(join(drm, 'device/mem_info_vram_total'))) ?? (await bankBytes(node));
  const visible = await readNumber(join(drm, 'device/mem_info_vis_vram_total'));
  const used = await readNumber(join(drm, 'device/mem_info_vram_used'));
  return {
    record: {
      ordinal,
      gpu_id: gpuId,
      gfx_target_version: value('gfx_target_version'),
      device_id: value('device_id'),
      vendor_id: value('vendor_id'),
      vram_bytes: total,
      render_minor: minor,
      // Kernels before 6.5 have one XCC per node and do not report the number.
      num_xcc: properties.get('num_xcc') ?? 1,
      simd_count: value('simd_count'),
      location: await location(drm, value('domain'), value('location_id')),
      ...(hive !== undefined && { hive_id: hive }),
      ...firmwareOf(properties),
    },
    renderDevice: await readDeviceNumber(join(drm, 'dev')),
    cardDevice: await readCardDevice(join(drm, 'device/drm')),
    vramHidden: (await bankBytes(node, [privateHeap])) > 0 || (visible ?? total) < total,
    vramFreeBytes: used === undefined ? undefined : Math.max(0, total - used),
    sdmaEngines: { pcie: value('num_sdma_engines'), xgmi: value('num_sdma_xgmi_engines') },
    sdmaUsers: [],
  };
}

async function readIfAllowed(path: string): Promise<string | undefined> {
  try {
    return await readTextIfAny(path);
  } catch (error) {
    // KFD answers EPERM for a GPU the caller's device cgroup does not allow.
    if (error instanceof Error && 'code' in error && error.code === 'EPERM') return undefined;
    throw error;
  }
}

async function readNumber(path: string): Promise<number | undefined> {
  const text = (await readTextIfAny(path))?.trim();
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

const publicHeap = 1;
const privateHeap = 2;

/**
 * VRAM in the topology, by types of heaps. All VRAM of a GPU is in one bank, which is private when the CPU does not see
 * some of it (kfd_crat.c:kfd_create_vcrat_image_gpu@6.12.117).
 */
async function bankBytes(node: string, heaps = [publicHeap, privateHeap]): Promise<number> {
  const banks = join(node, 'mem_banks');
  let sum = 0;
  for (const bank of await readdir(banks).catch(() => [])) {
    const properties = parseProperties(
      (await readTextIfAny(join(banks, bank, 'properties'))) ?? '',
    );
    const heap = properties.get('heap_type');
    if (heap !== undefined && heaps.includes(heap)) sum += properties.get('size_in_bytes') ?? 0;
  }
  return sum;
}

/** The PCI address: the name of the DRM device's parent, or KFD's location_id. */
async function location(drm: string, domain: number, locationId: number): Promise<string> {
  const parent = await readlink(join(drm, 'device')).catch(() => '');
  const name = /([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$/.exec(parent)?.[1];
  if (name !== undefined) return name;
  const digits = (part: number, width: number) => part.toString(16).padStart(width, '0');
  const bus = (locationId >> 8) & 0xff;
  const slot = (locationId >> 3) & 0x1f;
  return `${digits(domain & 0xffff, 4)}:${digits(bus, 2)}:${digits(slot, 2)}.${locationId & 7}`;
}
