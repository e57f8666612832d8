/** What the plugin has reported about the tree: GPU processes, states, buffers, and the files that CRIU dumped. */

import { KfdError } from '../../errors.js';
import { nodesOf } from '../../gpu/container-cards.js';
import type { Host, HostGpu } from '../../gpu/host.js';
import type { Logger } from '../../log.js';
import { renderStateFileName } from '../../manifest/names.js';
import type { ManifestExtFile } from '../../manifest/schema.js';
import { native } from '../../native.js';
import { withRenderBos } from '../buffers/process-bos.js';
import type { Message } from '../plugin/message.js';
import { takeState } from '../plugin/take-state.js';
import { boIndices, fileKind } from '../plugin/wire.js';
import { HeldDmabufs } from './held-dmabufs.js';
import type { DumpedProcess } from './process.js';

/** Each method takes a message of its kind. It throws E_PROTOCOL for an invalid one. */
export class DumpRecord {
  readonly host: Host;
  readonly dmabufs = new HeldDmabufs();
  readonly extFiles: ManifestExtFile[] = [];
  /** Device ids of the nodes in the `/dev/dri` of its processes. */
  readonly nodes = new Set<number>();
  readonly #log: Logger;
  /** Each ends the watch of one process. */
  readonly #watches: (() => void)[] = [];
  readonly #processes = new Map<number, DumpedProcess>();

  constructor(host: Host, log: Logger) {
    this.host = host;
    this.#log = log;
  }

  get processes(): DumpedProcess[] {
    return [...this.#processes.values()];
  }

  /** A process that will be paused, or a process that uses only render nodes. */
  addProcess({ args: [ordinal = -1, pid = -1], fds: [pidfd, kfd], body }: Message): void {
    if (pidfd === undefined) throw protocol('a pause without descriptors');
    const comm = body.toString('utf8');
    for (const node of nodesOf(pid)) this.nodes.add(node);
    // Before Linux 7 queues and VRAM of a process end with the last file of /dev/kfd, also when it is a copy
    // (kfd_process.c:kfd_process_wq_release@6.12.117; kfd_process_notifier_release_internal@7.3.4).
    if (kfd !== undefined) this.#watches.push(native().watchExit(pidfd, () => kfd.close()));
    this.#processes.set(ordinal, {
      ordinal,
      pid,
      comm,
      pidfd,
      ...(kfd && { kfd }),
      renderFiles: [],
      dmabufs: new Map(),
    });
    this.#log.info({ process: ordinal, pid, comm, pauses: kfd !== undefined }, 'reading');
  }

  /** Throws E_UNSUPPORTED_STATE, too. */
  addState(message: Message): void {
    const process = this.#process(message);
    const [memfd] = message.fds;
    if (memfd === undefined) throw protocol('a state without its memfd');
    process.state = takeState(memfd);
    process.summary = native().stateSummary(process.state);
    process.kfdBos = process.summary.bos.length;
  }

  /** Throws E_UNSUPPORTED_STATE, too. */
  addRenderFile(message: Message): void {
    const process = this.#process(message);
    const [, number = -1, minor = -1, carriesKfd] = message.args;
    const [memfd] = message.fds;
    const state = memfd && takeState(memfd);
    const file = { number, minor, carriesKfd: carriesKfd === 1, ...(state && { state }) };
    process.renderFiles.push(file);
    if (state === undefined || process.summary === undefined) return;
    const { gpu_id: actual } = this.#gpuOf(minor).record;
    const device = process.summary.devices.find(({ actualGpuId }) => actualGpuId === actual);
    if (device === undefined) throw protocol(`renderD${minor} is no GPU of its process`);
    const summary = native().renderStateSummary(state);
    process.summary = withRenderBos(process.summary, [{ gpuId: device.userGpuId, summary }]);
    const bos = summary.bos.length;
    this.#log.info({ process: process.ordinal, minor, ...summary, bos }, 'render file');
  }

  addBuffers(message: Message): void {
    const process = this.#process(message);
    const indices = boIndices(message.body, message.fds.length);
    message.fds.forEach((dmabuf, i) => {
      process.dmabufs.set(indices[i] as number, dmabuf);
    });
  }

  /** CRIU dumps a file of a GPU. Throws E_UNSUPPORTED_STATE, too. */
  addFile({ args: [criuId = -1, kind, what = -1, number] }: Message): void {
    if (kind === fileKind.dmabuf) {
      this.dmabufs.file(criuId, what);
      return;
    }
    const process = what;
    if (kind === fileKind.kfd) {
      this.extFiles.push({ criu_id: criuId, kind: 'kfd', process });
      return;
    }
    const file = this.#processes.get(process)?.renderFiles.find((one) => one.number === number);
    if (file === undefined) throw protocol(`render file ${number} was not announced`);
    this.extFiles.push({
      criu_id: criuId,
      kind: file.carriesKfd ? 'render' : 'drm',
      process,
      gpu: this.#gpuOf(file.minor).record.ordinal,
      ...(file.state && { render_state: renderStateFileName(file.number) }),
    });
  }

  /** Closes the dma-bufs: contents have been read. */
  closeBuffers(): void {
    for (const { dmabufs } of this.processes) {
      for (const dmabuf of dmabufs.values()) dmabuf.close();
    }
  }

  /** Closes every descriptor. */
  close(): void {
    this.closeBuffers();
    for (const end of this.#watches) end();
    for (const { kfd, pidfd } of this.processes) {
      kfd?.close();
      pidfd.close();
    }
  }

  #gpuOf(minor: number): HostGpu {
    const gpu = this.host.gpus.find(({ record }) => record.render_minor === minor);
    if (gpu === undefined) throw protocol(`renderD${minor} is none of KFD's GPUs`);
    return gpu;
  }

  #process({ args: [ordinal = -1] }: Message): DumpedProcess {
    const process = this.#processes.get(ordinal);
    if (process === undefined) throw protocol(`process ${ordinal} was not announced`);
    return process;
  }
}

function protocol(reason: string): KfdError {
  return new KfdError('E_PROTOCOL', `plugin: ${reason}`);
}
