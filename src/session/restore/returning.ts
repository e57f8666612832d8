/** A process of the image on its way back, and what the image says of it. */

import { fstatSync } from 'node:fs';
import { KfdError } from '../../errors.js';
import type { HostGpu } from '../../gpu/host.js';
import { isRenderFile, type Manifest, type ManifestExtFile } from '../../manifest/schema.js';
import type { Descriptor } from '../../native.js';
import { deviceId } from '../../os/device-id.js';
import type { Message } from '../plugin/message.js';
import type { DeviceFilter } from './device-filter.js';
import type { PreparedProcess } from './preflight.js';

/** Which render file of a process on one GPU: 0 carries KFD's memory, others are numbered from 1. */
export function renderNumber(file: ManifestExtFile): number {
  return file.kind === 'render' ? 0 : file.criu_id + 1;
}

/** A process of the image on its way back. */
export interface Returning {
  readonly prepared: PreparedProcess;
  /** By GPU, as the process knows it, and which of its render files; the application's own is a copy. */
  readonly render: Map<string, Descriptor>;
  /** Host pid of the task that called RESTORE. */
  pid?: number;
  readonly dmabufs: Map<number, Descriptor>;
  /** While its task opens /dev/kfd. */
  filter?: DeviceFilter;
  upload?: Promise<void>;
  vmasMapped?: number;
}

export function opensKfd({ ext_files: files }: Manifest, { prepared }: Returning): boolean {
  return files.some(({ kind, process }) => kind === 'kfd' && process === prepared.ordinal);
}

export function renderFilesOf(
  { ext_files: files }: Manifest,
  { prepared }: Returning,
): ManifestExtFile[] {
  return files.filter((file) => isRenderFile(file) && file.process === prepared.ordinal);
}

/** Of the render file that a message names. */
export function renderKey({ args: [, gpu, which] }: Message): string {
  return `${gpu}/${which}`;
}

/**
 * CRIU ignores errors of its mapping hook: a mapping nobody reported is one that went wrong. Throws
 * E_GPU_IO.
 */
export function checkMappings(processes: Iterable<Returning>): void {
  for (const { prepared, vmasMapped = 0 } of processes) {
    const expected = prepared.summary.vmas;
    if (vmasMapped !== expected) {
      const reason = `process ${prepared.ordinal}: ${vmasMapped} of ${expected} GPU mappings came back`;
      throw new KfdError('E_GPU_IO', reason);
    }
  }
}

/** Its task sees again what its own cgroup lets it. Throws E_IO. */
export async function leaveFilter(process: Returning): Promise<void> {
  const { filter } = process;
  delete process.filter;
  await filter?.leave();
}

export function closeBuffers(processes: Iterable<Returning>): void {
  for (const { dmabufs } of processes) {
    for (const dmabuf of dmabufs.values()) dmabuf.close();
    dmabufs.clear();
  }
}

/** A container may have another device under the name of a render node: E_DEVICE_MOVED. */
export function assertDevice(render: Descriptor, { renderDevice }: HostGpu): void {
  const { rdev } = fstatSync(render.fd);
  if (renderDevice !== undefined && rdev === deviceId(renderDevice)) return;
  throw new KfdError('E_DEVICE_MOVED', `container: its render node is device number ${rdev}`, {
    hint: 'the archive was made where render nodes had other numbers',
  });
}
