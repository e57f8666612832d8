/** Render files, dma-bufs and buffers for the plugin in restored tasks. */

import { KfdError } from '../../errors.js';
import type { ManifestExtFile } from '../../manifest/schema.js';
import { native } from '../../native.js';
import { renderNode } from '../contents/drain.js';
import type { Phases } from '../phases.js';
import type { Message } from '../plugin/message.js';
import type { Answer, Handler } from '../plugin/serve-messages.js';
import { boIndices, fileKind, messageType } from '../plugin/wire.js';
import { DeviceFilter } from './device-filter.js';
import type { RestoreImage } from './image.js';
import { MadeBuffers } from './made-buffers.js';
import { assertDevice, type Returning, renderKey, renderNumber } from './returning.js';

/** Each method answers a message of its kind. It throws E_PROTOCOL for an invalid one. */
export class RestoreFiles {
  readonly #image: RestoreImage;
  readonly #phases: Phases;
  readonly #made: MadeBuffers;

  /** `seconds`: see withDeadline(). */
  constructor(image: RestoreImage, phases: Phases, seconds: number) {
    this.#image = image;
    this.#phases = phases;
    this.#made = new MadeBuffers(image.manifest, image.processes, seconds);
  }

  /** The GPU file behind one of CRIU's external files. */
  async open(message: Message): Promise<Answer> {
    const [criuId = -1] = message.args;
    const file = this.#image.extFile(criuId);
    if (file === undefined) return { args: [fileKind.none] };
    if (file.kind === 'dmabuf') return this.#openDmabuf(file, message);
    const process = this.#image.processes.get(file.process);
    if (process === undefined) throw protocol(`process ${file.process} has no state`);
    return file.kind === 'kfd' ? this.#openKfd(process, message) : this.#openRender(process, file);
  }

  async #openKfd(process: Returning, { pid }: Message): Promise<Answer> {
    const { ordinal, summary } = process.prepared;
    this.#phases.enter('restore_state');
    await this.#filterDevices(process, pid);
    if (!this.#image.hasKfdState(process)) return { args: [fileKind.kfd, ordinal] };
    const ids = summary.devices.map(
      ({ actualGpuId }) => this.#image.pair(actualGpuId).present.record.gpu_id,
    );
    const shared = this.#image.kfdSharesOf(process).map(({ bo_index }) => bo_index);
    const memfd = native().stateForRestore(await process.prepared.readState(), ids, shared);
    return { args: [fileKind.kfd, ordinal], fds: [memfd] };
  }

  async #openRender(process: Returning, file: ManifestExtFile): Promise<Answer> {
    const { readState, summary } = process.prepared;
    const recorded = this.#image.manifest.gpus.find(({ ordinal }) => ordinal === file.gpu);
    const device = summary.devices.find(({ actualGpuId }) => actualGpuId === recorded?.gpu_id);
    if (device === undefined) throw protocol(`GPU ${file.gpu} is not in the state of its process`);
    const which = [file.process, device.userGpuId, renderNumber(file)];
    if (this.#image.hasKfdState(process)) return { args: [fileKind.render, ...which] };
    this.#phases.enter('restore_state');
    return { args: [fileKind.drm, ...which], fds: [native().memfd(await readState())] };
  }

  /**
   * A dma-buf, once its buffer exists. A task whose own KFD state is not restored yet must restore it first: CRIU would
   * ask for its /dev/kfd only after this answer. Otherwise two processes that hold each other's dma-bufs would wait for
   * ever.
   */
  async #openDmabuf({ buffer = -1 }: ManifestExtFile, { args }: Message): Promise<Answer> {
    const [, nsPid] = args;
    const { processes } = this.#image;
    const own = [...processes.values()].find((one) => one.prepared.summary.nsPid === nsPid);
    const first = own && own.upload === undefined ? this.#image.stateFile(own) : undefined;
    if (first !== undefined) return { args: [fileKind.dmabuf, first.criu_id] };
    const { dmabuf } = await this.#made.wait(buffer);
    return { args: [fileKind.dmabuf], fds: [dmabuf] };
  }

  /** The contents of a process's render files, in order. */
  async renderState(message: Message): Promise<Answer> {
    const { ordinal, renderStates } = this.#image.process(message).prepared;
    const held = renderStates[message.args[1] ?? -1];
    if (held === undefined) return { args: [0] };
    const { file, gpuId, firstBo, bos, readState } = held;
    const positions = Array.from({ length: bos }, (_, position) => position);
    const shared = positions.filter(
      (position) => this.#image.shareOf(ordinal, firstBo + position) !== undefined,
    );
    const memfd = native().renderStateForRestore(await readState(), firstBo, shared);
    return { args: [1, gpuId, renderNumber(file), firstBo], fds: [memfd] };
  }

  /**
   * The open descriptor, or the path and the device number to open in the container. RESTORE also wants a file of a GPU
   * that the process only may use. The container may have no node of it, so that file is the session's.
   */
  renderFile(message: Message): Answer {
    const process = this.#image.process(message);
    const key = renderKey(message);
    const known = process.render.get(key);
    if (known !== undefined) return { fds: [known] };
    const pair = this.#image.pairOf(process, message);
    const path = renderNode(pair.present);
    if (message.args[2] === 0 && !this.#image.isReached(process, pair)) {
      const render = native().openDevice(path);
      process.render.set(key, render);
      return { fds: [render] };
    }
    const { major = 0, minor = 0 } = pair.present.renderDevice ?? {};
    return { text: path, args: [major, minor] };
  }

  /**
   * The task opened this file in its container. The application's descriptor is a copy of it. Throws E_DEVICE_MOVED.
   */
  renderOpened(message: Message): Answer {
    const process = this.#image.process(message);
    const key = renderKey(message);
    const [render] = message.fds;
    if (render === undefined) throw protocol('a render file without its descriptor');
    if (process.render.has(key)) throw protocol(`a render file of one process opened twice`);
    assertDevice(render, this.#image.pairOf(process, message).present);
    process.render.set(key, render);
    return {};
  }

  /** New dma-bufs of a process. The owner of a shared buffer fills it. */
  buffers(message: Message): undefined {
    const process = this.#image.process(message);
    const { ordinal } = process.prepared;
    const indices = boIndices(message.body, message.fds.length);
    message.fds.forEach((dmabuf, i) => {
      const index = indices[i] as number;
      if (this.#image.shareOf(ordinal, index) !== undefined) dmabuf.close();
      else process.dmabufs.set(index, dmabuf);
      this.#made.made({ process: ordinal, bo_index: index });
    });
  }

  /** The buffer of a render file's BO, once it exists. */
  async sharedBo({ args: [ordinal = -1, index = -1] }: Message): Promise<Answer> {
    const share = this.#image.shareOf(ordinal, index);
    if (share === undefined) throw protocol(`BO ${index} of process ${ordinal} is not shared`);
    const { dmabuf } = await this.#made.wait(share.buffer);
    return { fds: [dmabuf] };
  }

  /** The buffer that replaces the next shared BO of the process, as soon as it exists. */
  async importBuffer(message: Message): Promise<Answer> {
    const process = this.#image.process(message);
    const share = this.#image.kfdSharesOf(process)[message.args[1] ?? -1];
    if (share === undefined) return {};
    const { dmabuf, gpu } = await this.#made.wait(share.buffer);
    const pair = this.#image.plan.pairs.find(({ recorded }) => recorded.ordinal === gpu);
    if (pair === undefined) throw protocol(`GPU ${gpu} has no counterpart`);
    const [name] = native().buffersBehind(renderNode(pair.present), [dmabuf]);
    return { args: [share.bo_index, Number(name?.mmapOffset ?? 0)], fds: [dmabuf] };
  }

  /** The messages about files and buffers, by type. */
  handlers(): readonly (readonly [number, Handler])[] {
    return [
      [messageType.openFile, (m) => this.open(m)],
      [messageType.restoreBuffers, (m) => this.buffers(m)],
      [messageType.renderOpened, (m) => this.renderOpened(m)],
      [messageType.renderFile, (m) => this.renderFile(m)],
      [messageType.importBuffer, (m) => this.importBuffer(m)],
      [messageType.renderState, (m) => this.renderState(m)],
      [messageType.sharedBo, (m) => this.sharedBo(m)],
    ];
  }

  /** A process must not see more GPUs than before the checkpoint. */
  async #filterDevices(process: Returning, pid: number): Promise<void> {
    const { devices } = process.prepared.summary;
    if (process.filter !== undefined || process.upload !== undefined) return; // a further file of it
    if (this.#image.plan.host.gpus.length <= devices.length) return;
    const gpus = devices.map(({ actualGpuId }) => this.#image.pair(actualGpuId).present);
    process.filter = await DeviceFilter.enter(pid, gpus);
  }
}

function protocol(reason: string): KfdError {
  return new KfdError('E_PROTOCOL', `restore: ${reason}`);
}
