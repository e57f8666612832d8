/**
 * One restore: hands states and render files to the plugin in the restored tasks, uploads contents
 * while CRIU restores memory, and lets nothing run before every frame was verified.
 */

import { KfdError } from '../../errors.js';
import type { GpuPair } from '../../gpu/pair.js';
import type { Manifest, ManifestExtFile, ManifestShare } from '../../manifest/schema.js';
import { fromNative, native } from '../../native.js';
import { kfdBos } from '../buffers/process-bos.js';
import { renderNode } from '../contents/drain.js';
import { Uploads } from '../contents/upload.js';
import type { Message, SessionContext } from '../context.js';
import { type Cancellable, resultOf, type SessionResult, tooLate } from '../control/types.js';
import { deferred } from '../deferred.js';
import { type Answer, converse, type Handler, reportedFailure } from '../plugin/conversation.js';
import { boIndices, fileKind, messageType } from '../plugin/wire.js';
import { withDeadline } from './deadline.js';
import { DeviceFilter } from './device-filter.js';
import { MadeBuffers } from './made-buffers.js';
import { type Preflight, preflight } from './preflight.js';
import {
  assertDevice,
  checkMappings,
  closeBuffers,
  opensKfd,
  type Returning,
  renderFilesOf,
  renderKey,
  renderNumber,
} from './returning.js';

export class RestoreSession implements Cancellable {
  readonly #context: SessionContext;
  readonly #returning = new Map<number, Returning>();
  #plan: Preflight | undefined;
  #made: MadeBuffers | undefined;
  #uploads: Uploads | undefined;
  #failure: KfdError | undefined;
  #resumed = false;
  #gateBegan: number | undefined;
  readonly #atGate = deferred();

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** Refuses what cannot work here, before any task exists. Throws KfdError with all reasons. */
  async start(): Promise<void> {
    this.#plan = await preflight(this.#context.image, this.#context.config.gpu_map);
    if (this.#plan !== undefined) {
      const seconds = this.#context.config.gate_timeout_s;
      this.#uploads = new Uploads(this.#context, this.#plan);
      this.#made = new MadeBuffers(this.#plan.manifest, this.#returning, seconds);
    }
    for (const prepared of this.#plan?.processes ?? []) {
      this.#returning.set(prepared.ordinal, { prepared, render: new Map(), dmabufs: new Map() });
    }
    const handlers: [number, Handler][] = [
      [messageType.openFile, (m) => this.#openFile(m)],
      [messageType.restoreBuffers, (m) => this.#hearOfBuffers(m)],
      [messageType.restored, (m) => this.#restored(m)],
      [messageType.renderOpened, (m) => this.#renderOpened(m)],
      [messageType.renderFile, (m) => this.#renderFile(m)],
      [messageType.importBuffer, (m) => this.#importBuffer(m)],
      [messageType.renderState, (m) => this.#renderState(m)],
      [messageType.sharedBo, (m) => this.#sharedBo(m)],
      [messageType.vmasMapped, (m) => this.#vmasMapped(m)],
      [messageType.restoreFailed, (m) => this.#failed(m)],
      [messageType.stage, (m) => this.#stage(m)],
    ];
    converse(this.#context, new Map(handlers), (error) => {
      this.#failure ??= error;
    });
    this.#context.phases.enter('wait_for_tasks');
  }

  /** After CRIU has ended, or when it can no longer succeed: everything of the GPU is let go. */
  async finish(): Promise<SessionResult> {
    await this.#uploads?.cancel();
    await this.#release();
    const timings = this.#context.phases.timings();
    const outcome = this.#resumed ? 'restored' : 'failed';
    this.#context.log.info(
      {
        outcome,
        err: this.#failure,
        max_rss_bytes: process.resourceUsage().maxRSS * 1024,
        processes: this.#returning.size,
        content_bytes: this.#uploads?.bytes ?? 0,
        timings_us: { ...timings, ...this.#uploads?.timings(this.#gateBegan) },
      },
      'session ended',
    );
    return resultOf(outcome, this.#failure);
  }

  get processes(): Returning[] {
    return [...this.#returning.values()];
  }

  /** The tree is killed when CRIU asks next. */
  cancel(reason: KfdError): void {
    if (this.#failure !== undefined) throw tooLate('the restore has failed');
    if (this.#resumed) throw tooLate('the GPU is running');
    this.#failure = reason;
    this.#context.transfers.cancel();
  }

  async #openFile(message: Message): Promise<Answer> {
    const file = this.#manifest().ext_files.find(({ criu_id }) => criu_id === message.args[0]);
    if (file === undefined) return { args: [fileKind.none] };
    if (file.kind === 'dmabuf') return this.#openDmabuf(file, message);
    const process = this.#returning.get(file.process);
    if (process === undefined) throw protocol(`process ${file.process} has no state`);
    const { state, summary } = process.prepared;
    const ownState = !this.#hasKfdState(process);
    if (file.kind !== 'kfd') {
      const recorded = this.#manifest().gpus.find(({ ordinal }) => ordinal === file.gpu);
      const device = summary.devices.find(({ actualGpuId }) => actualGpuId === recorded?.gpu_id);
      if (device === undefined)
        throw protocol(`GPU ${file.gpu} is not in the state of its process`);
      const args = [fileKind.render, file.process, device.userGpuId, renderNumber(file)];
      if (!ownState) return { args };
      this.#context.phases.enter('restore_state');
      return { args: [fileKind.drm, ...args.slice(1)], fds: [native().memfd(state)] };
    }
    this.#context.phases.enter('restore_state');
    await this.#narrow(process, message.pid);
    if (ownState) return { args: [fileKind.kfd, file.process] };
    const ids = summary.devices.map(
      ({ actualGpuId }) => this.#pair(actualGpuId).present.record.gpu_id,
    );
    const shared = this.#kfdSharesOf(process).map(({ bo_index }) => bo_index);
    const memfd = native().stateForRestore(state, ids, shared);
    return { args: [fileKind.kfd, file.process], fds: [memfd] };
  }

  /**
   * A dma-buf once its buffer is there. The task that asks may have buffers to make itself, and CRIU would not ask it for
   * /dev/kfd before it has this one: processes that hold each other's would wait for ever.
   */
  async #openDmabuf({ buffer = -1 }: ManifestExtFile, { args }: Message): Promise<Answer> {
    const [, nsPid] = args;
    const own = [...this.#returning.values()].find((one) => one.prepared.summary.nsPid === nsPid);
    const first = own && own.upload === undefined ? this.#stateFile(own) : undefined;
    if (first !== undefined) return { args: [fileKind.dmabuf, first.criu_id] };
    const { dmabuf } = await this.#buffers().wait(buffer);
    return { args: [fileKind.dmabuf], fds: [dmabuf] };
  }

  /** A file with which all of a process comes back; none when there is nothing to bring back. */
  #stateFile(process: Returning): ManifestExtFile | undefined {
    const kind = this.#hasKfdState(process) ? 'kfd' : 'drm';
    return this.#manifest().ext_files.find(
      (file) => file.kind === kind && file.process === process.prepared.ordinal,
    );
  }

  /**
   * False without KFD, and when it opened /dev/kfd and did nothing more: a new open is all it needs. RESTORE would bind
   * its GPUs to render files which it could never exchange for those it will open itself.
   */
  #hasKfdState(process: Returning): boolean {
    if (!opensKfd(this.#manifest(), process)) return false;
    const { numObjects, devices } = process.prepared.summary;
    const opened = renderFilesOf(this.#manifest(), process).some(({ kind }) => kind === 'render');
    const sameIds = devices.every(
      ({ userGpuId, actualGpuId }) => this.#pair(actualGpuId).present.record.gpu_id === userGpuId,
    );
    return kfdBos(process.prepared) > 0 || numObjects > 0 || opened || !sameIds;
  }

  /** What the render files of a process held, one after the other. */
  #renderState(message: Message): Answer {
    const { ordinal, renderStates } = this.#process(message).prepared;
    const held = renderStates[message.args[1] ?? -1];
    if (held === undefined) return { args: [0] };
    const { file, gpuId, firstBo, bos, state } = held;
    const shared = this.#sharesOf(ordinal)
      .map(({ bo_index: index }) => index - firstBo)
      .filter((position) => position >= 0 && position < bos);
    const memfd = native().renderStateForRestore(state, firstBo, shared);
    return { args: [1, gpuId, renderNumber(file), firstBo], fds: [memfd] };
  }

  /** The buffer that a BO of a render file is, once it is there. */
  async #sharedBo(message: Message): Promise<Answer> {
    const [ordinal = -1, index] = message.args;
    const share = this.#sharesOf(ordinal).find(({ bo_index }) => bo_index === index);
    if (share === undefined) throw protocol(`BO ${index} of process ${ordinal} is not shared`);
    const { dmabuf } = await this.#buffers().wait(share.buffer);
    return { fds: [dmabuf] };
  }

  /** The descriptor once a file of the process has opened it; before, what to open in the container. */
  #renderFile(message: Message): Answer {
    const process = this.#process(message);
    const known = process.render.get(renderKey(message));
    if (known !== undefined) return { fds: [known] };
    return { text: renderNode(this.#pairOf(process, message).present) };
  }

  /** Opened by the task itself, in the container; the application's descriptor is a copy of it. */
  #renderOpened(message: Message): Answer {
    const process = this.#process(message);
    const key = renderKey(message);
    const [render] = message.fds;
    if (render === undefined) throw protocol('a render file without its descriptor');
    if (process.render.has(key)) throw protocol(`a render file of one process opened twice`);
    assertDevice(render, this.#pairOf(process, message).present);
    process.render.set(key, render);
    return {};
  }

  #hearOfBuffers(message: Message): undefined {
    const process = this.#process(message);
    const indices = boIndices(message.body, message.fds.length);
    const shared = new Set(
      this.#sharesOf(process.prepared.ordinal).map(({ bo_index }) => bo_index),
    );
    message.fds.forEach((dmabuf, i) => {
      const index = indices[i] as number;
      if (shared.has(index)) dmabuf.close();
      else process.dmabufs.set(index, dmabuf);
      this.#buffers().made({ process: process.prepared.ordinal, bo_index: index });
    });
  }

  /** What takes the place of the next BO that the process shares, once the buffer is there. */
  async #importBuffer(message: Message): Promise<Answer> {
    const process = this.#process(message);
    const share = this.#kfdSharesOf(process)[message.args[1] ?? -1];
    if (share === undefined) return {};
    const { dmabuf, gpu } = await this.#buffers().wait(share.buffer);
    const pair = this.#plan?.pairs.find(({ recorded }) => recorded.ordinal === gpu);
    if (pair === undefined) throw protocol(`GPU ${gpu} has no counterpart`);
    const offset = native().gemMmapOffset(renderNode(pair.present), dmabuf);
    return { args: [share.bo_index, offset], fds: [dmabuf] };
  }

  #sharesOf(ordinal: number): ManifestShare[] {
    return (this.#manifest().shares ?? []).filter(({ process }) => process === ordinal);
  }

  /** Of the BOs in its KFD state alone. */
  #kfdSharesOf(process: Returning): ManifestShare[] {
    const shares = this.#sharesOf(process.prepared.ordinal);
    return shares.filter(({ bo_index: index }) => index < kfdBos(process.prepared));
  }

  /** On a host with more GPUs than the process saw it must not see the others either. */
  async #narrow(process: Returning, pid: number): Promise<void> {
    const { devices } = process.prepared.summary;
    if (process.filter !== undefined || process.upload !== undefined) return; // a further file of it
    if (this.#plan === undefined || this.#plan.host.gpus.length <= devices.length) return;
    const gpus = devices.map(({ actualGpuId }) => this.#pair(actualGpuId).present);
    process.filter = await DeviceFilter.enter(pid, gpus);
  }

  async #widen(process: Returning): Promise<void> {
    const { filter } = process;
    delete process.filter;
    await filter?.leave();
  }

  /** RESTORE zeroes the event page, so contents are uploaded only after it has returned. */
  async #restored(message: Message): Promise<Answer> {
    const process = this.#process(message);
    await this.#widen(process);
    if (message.args[1] === 0) {
      // Nothing of KFD's; its render files bring back the rest.
      if (renderFilesOf(this.#manifest(), process).length === 0) process.upload = Promise.resolve();
      return { text: this.#context.logPath };
    }
    process.pid = message.pid;
    process.upload = this.#context.config.parallel
      ? this.#upload(process)
      : this.#atGate.promise.then(() => this.#upload(process));
    process.upload.catch((error: unknown) => {
      this.#failure ??= fromNative(error, 'upload');
    });
    this.#context.phases.enter('overlap');
    return { text: this.#context.logPath };
  }

  #upload({ prepared: { ordinal }, pid, dmabufs }: Returning): Promise<void> {
    this.#context.log.info({ process: ordinal, pid }, 'uploading');
    return this.#uploadsOrThrow().start(ordinal, dmabufs);
  }

  #vmasMapped(message: Message): Answer {
    this.#process(message).vmasMapped = message.args[1] ?? 0;
    return {};
  }

  #failed(message: Message): undefined {
    this.#failure ??= reportedFailure(message, 'E_GPU_IO');
    this.#context.log.error({ err: this.#failure }, 'the plugin failed in a restored task');
  }

  async #stage(message: Message): Promise<Answer> {
    const stage = message.body.toString('utf8');
    this.#context.log.info({ stage }, 'stage');
    if (stage === 'post-restore') await this.#gate();
    return {};
  }

  /** The last moment CRIU obeys: what fails here kills the half-restored tree. */
  async #gate(): Promise<void> {
    this.#gateBegan = performance.now();
    this.#context.phases.enter('gate');
    this.#atGate.resolve();
    try {
      await withDeadline(
        this.#context.config.gate_timeout_s,
        'upload: not finished',
        this.#allUploaded(),
      );
      this.#context.phases.enter('resume');
      checkMappings(this.#returning.values());
      for (const process of this.#returning.values()) {
        // On any other it can crash the kernel.
        if (process.pid !== undefined && this.#hasKfdState(process)) {
          native().kfdResume(process.pid);
        }
      }
      this.#resumed = true;
      closeBuffers(this.#returning.values());
    } catch (error) {
      this.#failure ??= fromNative(error, 'restore'); // what follows ends the uploads: not the reason
      // The tree dies when we answer: nothing of ours may keep its GPU memory alive then.
      await this.#uploads?.cancel();
      await this.#release();
      throw this.#failure;
    }
    this.#context.phases.enter('finish');
  }

  async #allUploaded(): Promise<void> {
    for (const { upload, prepared } of this.#returning.values()) {
      if (this.#failure !== undefined) throw this.#failure;
      if (upload === undefined) throw protocol(`process ${prepared.ordinal} was not restored`);
      await upload;
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #release(): Promise<void> {
    for (const process of this.#returning.values()) {
      // What is left of it goes with the container's cgroup.
      await this.#widen(process).catch((err: unknown) => {
        this.#context.log.warn({ err, process: process.prepared.ordinal }, 'cannot leave a cgroup');
      });
    }
    closeBuffers(this.#returning.values());
    for (const process of this.#returning.values()) {
      for (const render of process.render.values()) render.close();
    }
  }

  #pair(recordedId: number): GpuPair {
    const pair = this.#plan?.pairs.find(({ recorded }) => recorded.gpu_id === recordedId);
    if (pair === undefined) throw protocol(`GPU ${recordedId} is not in the manifest`);
    return pair;
  }

  /** Of the GPU a message names as the process knows it. */
  #pairOf({ prepared }: Returning, message: Message): GpuPair {
    const [, gpu] = message.args;
    const device = prepared.summary.devices.find(({ userGpuId }) => userGpuId === gpu);
    if (device === undefined) throw protocol(`process ${prepared.ordinal} has no GPU ${gpu}`);
    return this.#pair(device.actualGpuId);
  }

  #process(message: Message): Returning {
    const process = this.#returning.get(message.args[0] ?? -1);
    if (process === undefined) throw protocol(`process ${message.args[0]} is not in the image`);
    return process;
  }

  #buffers(): MadeBuffers {
    if (this.#made === undefined) throw new KfdError('E_INTERNAL', 'session: no image');
    return this.#made;
  }

  #uploadsOrThrow(): Uploads {
    if (this.#uploads === undefined) throw new KfdError('E_INTERNAL', 'session: no image');
    return this.#uploads;
  }

  #manifest(): Manifest {
    if (this.#plan === undefined) throw new KfdError('E_INTERNAL', 'session: no image');
    return this.#plan.manifest;
  }
}

function protocol(reason: string): KfdError {
  return new KfdError('E_PROTOCOL', `restore: ${reason}`);
}
