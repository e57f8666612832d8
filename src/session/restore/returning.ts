/** A process during its restore, and its record in the image. */

import { fstatSync } from 'node:fs';
import { KfdError } from '../../errors.js';
import type { HostGpu } from '../../gpu/host.js';
import { isRenderFile, type Manifest, type ManifestExtFile } from '../../manifest/schema.js';
import type { Descriptor } from '../../native.js';
import { deviceId } from '../../os/device-id.js';
import type { Message } from '../plugin/message.js';
import type { DeviceFilter } from './device-filter.js';
import type { PreparedProcess } from './prepare.js';

/** Number of a render file of a process on one GPU: 0 has KFD's memory, others count from 1. */
export function renderNumber(file: ManifestExtFile): number {
  return file.kind === 'render' ? 0 : file.criu_id + 1;
}

/** A process during its restore. */
export interface Returning {
  readonly prepared: PreparedProcess;
  /**
   * Keys: the GPU's id as the process knows it, and the number of the render file. The application's descriptor is a
   * copy.
   */
  readonly render: Map<string, Descriptor>;
  /** Host pid of the task that called RESTORE. */
  pid?: number;
  /** Of that task. It belongs to the tree. */
  pidfd?: Descriptor;
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

/** The render file in a message. */
export function renderKey({ args: [, gpu, which] }: Message): string {
  return `${gpu}/${which}`;
}

/** Waits for the contents of each. Throws E_PROTOCOL for a process that never came, and the error of an upload. */
export async function allUploaded(processes: readonly Returning[]): Promise<void> {
  for (const { upload, prepared } of processes) {
    if (upload === undefined) {
      throw new KfdError('E_PROTOCOL', `restore: process ${prepared.ordinal} was not restored`);
    }
    await upload;
  }
}

/** CRIU ignores errors of its mapping hook. A mapping without a report therefore failed. Throws E_GPU_IO. */
export function checkMappings(processes: Iterable<Returning>): void {
  for (const { prepared, vmasMapped = 0 } of processes) {
    const expected = prepared.summary.vmas;
    if (vmasMapped !== expected) {
      const reason = `process ${prepared.ordinal}: ${vmasMapped} of ${expected} GPU mappings came back`;
      throw new KfdError('E_GPU_IO', reason);
    }
  }
}

/** Removes the device filter from its task. Throws E_IO. */
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

/** A container may have another device under the name of a render node. Throws E_DEVICE_MOVED. */
export function assertDevice(render: Descriptor, { renderDevice }: HostGpu): void {
  const { rdev } = fstatSync(render.fd);
  if (renderDevice !== undefined && rdev === deviceId(renderDevice)) return;
  throw new KfdError('E_DEVICE_MOVED', `container: its render node is device number ${rdev}`, {
    hint: 'the archive was made where render nodes had other numbers',
  });
}
