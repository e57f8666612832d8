/** The image's processes, and the GPUs of this host that replace theirs. */

import { KfdError } from '../../errors.js';
import type { GpuPair } from '../../gpu/pair.js';
import { groupedBy } from '../../manifest/buffers.js';
import type { Manifest, ManifestExtFile, ManifestShare } from '../../manifest/schema.js';
import type { Message } from '../plugin/message.js';
import type { Preflight } from './preflight.js';
import { opensKfd, type Returning, renderFilesOf } from './returning.js';

export class RestoreImage {
  readonly plan: Preflight;
  /** By ordinal. */
  readonly processes: ReadonlyMap<number, Returning>;
  /** By CRIU's id. */
  readonly #extFiles: ReadonlyMap<number, ManifestExtFile>;
  /** By process, then by the index of the BO. */
  readonly #shares: ReadonlyMap<number, ReadonlyMap<number, ManifestShare>>;
  /** Of the BOs in the KFD state of each process. */
  readonly #kfdShares: ReadonlyMap<number, readonly ManifestShare[]>;

  constructor(plan: Preflight) {
    this.plan = plan;
    const { ext_files: extFiles, shares = [] } = plan.manifest;
    this.#extFiles = new Map(extFiles.map((file) => [file.criu_id, file]));
    const byProcess = groupedBy(shares, ({ process }) => process);
    this.#shares = new Map(
      [...byProcess].map(([process, own]) => [
        process,
        new Map(own.map((share) => [share.bo_index, share])),
      ]),
    );
    this.#kfdShares = new Map(
      plan.processes.map(({ ordinal, kfdBos }) => [
        ordinal,
        (byProcess.get(ordinal) ?? []).filter(({ bo_index: index }) => index < kfdBos),
      ]),
    );
    this.processes = new Map(
      plan.processes.map((prepared) => [
        prepared.ordinal,
        { prepared, render: new Map(), dmabufs: new Map() },
      ]),
    );
  }

  get manifest(): Manifest {
    return this.plan.manifest;
  }

  /** The GPU with this KFD id at the checkpoint. Throws E_PROTOCOL. */
  pair(recordedId: number): GpuPair {
    const pair = this.plan.pairs.find(({ recorded }) => recorded.gpu_id === recordedId);
    if (pair === undefined) throw protocol(`GPU ${recordedId} is not in the manifest`);
    return pair;
  }

  /** The GPU in a message, by the id that the process knows. Throws E_PROTOCOL. */
  pairOf({ prepared }: Returning, { args: [, gpu] }: Message): GpuPair {
    const device = prepared.summary.devices.find(({ userGpuId }) => userGpuId === gpu);
    if (device === undefined) throw protocol(`process ${prepared.ordinal} has no GPU ${gpu}`);
    return this.pair(device.actualGpuId);
  }

  /** The process in a message. Throws E_PROTOCOL. */
  process({ args: [ordinal = -1] }: Message): Returning {
    const process = this.processes.get(ordinal);
    if (process === undefined) throw protocol(`process ${ordinal} is not in the image`);
    return process;
  }

  /** The external file with CRIU's id. */
  extFile(criuId: number): ManifestExtFile | undefined {
    return this.#extFiles.get(criuId);
  }

  /** The share that this BO of the process is, if it is one. */
  shareOf(ordinal: number, boIndex: number): ManifestShare | undefined {
    return this.#shares.get(ordinal)?.get(boIndex);
  }

  /** BOs of the KFD state only, in the order of the manifest. */
  kfdSharesOf({ prepared }: Returning): readonly ManifestShare[] {
    return this.#kfdShares.get(prepared.ordinal) ?? [];
  }

  /** Whether the application has the render file with KFD's memory on that GPU open, or maps it. */
  isReached(process: Returning, { recorded }: GpuPair): boolean {
    const isOpen = renderFilesOf(this.manifest, process).some(
      ({ kind, gpu }) => kind === 'render' && gpu === recorded.ordinal,
    );
    const { devices } = process.prepared.summary;
    const device = devices.find(({ actualGpuId }) => actualGpuId === recorded.gpu_id);
    return isOpen || (device?.renderVmas ?? 0) > 0;
  }

  /** The state to restore for a process; undefined when nothing needs RESTORE. */
  stateFile(process: Returning): ManifestExtFile | undefined {
    const kind = this.hasKfdState(process) ? 'kfd' : 'drm';
    return this.manifest.ext_files.find(
      (file) => file.kind === kind && file.process === process.prepared.ordinal,
    );
  }

  /**
   * False without KFD, and for a process that only opened /dev/kfd: a new open is enough. RESTORE would bind its GPUs
   * to render files for ever, and the process could not use its own.
   */
  hasKfdState(process: Returning): boolean {
    if (!opensKfd(this.manifest, process)) return false;
    const { numObjects, devices } = process.prepared.summary;
    const opened = renderFilesOf(this.manifest, process).some(({ kind }) => kind === 'render');
    const sameIds = devices.every(
      ({ userGpuId, actualGpuId }) => this.pair(actualGpuId).present.record.gpu_id === userGpuId,
    );
    return process.prepared.kfdBos > 0 || numObjects > 0 || opened || !sameIds;
  }
}

function protocol(reason: string): KfdError {
  return new KfdError('E_PROTOCOL', `restore: ${reason}`);
}
