/**
 * One checkpoint: takes KFD states and dma-bufs from the plugin, drains contents while CRIU dumps
 * host memory, seals the image at `post-dump`, and undoes every pause the plugin could not.
 */

import { KfdError } from '../../errors.js';
import { type Host, type HostGpu, readHost } from '../../gpu/host.js';
import { removeImageFiles, writeManifest } from '../../manifest/image.js';
import { pagesPattern, renderStateFileName } from '../../manifest/names.js';
import type { ManifestExtFile } from '../../manifest/schema.js';
import { type Descriptor, native, type StateSummary } from '../../native.js';
import { withRenderBos } from '../buffers/process-bos.js';
import { checkSiblings } from '../buffers/siblings.js';
import { type DrainedFile, planDrain } from '../contents/drain.js';
import { DumpContents } from '../contents/dump-contents.js';
import { type ParentIndexes, parentIndexes } from '../contents/parent.js';
import type { Message, SessionContext } from '../context.js';
import { type Cancellable, resultOf, type SessionResult, tooLate } from '../control/types.js';
import { type Answer, converse, type Handler, reportedFailure } from '../plugin/conversation.js';
import { takeState } from '../plugin/take-state.js';
import { boIndices, fileKind, messageType } from '../plugin/wire.js';
import { composeManifest } from './compose-manifest.js';
import { HeldDmabufs } from './held-dmabufs.js';
import { findShares, type SharedBo } from './sharing.js';
import { writeStates } from './state-files.js';
import { unpauseSurvivors } from './unpause.js';
import { refuseUnrestorable } from './unrestorable.js';

/** An open file of a render node. */
export interface DumpedRender {
  readonly number: number;
  readonly minor: number;
  /** Its GPU address space is the one KFD uses. */
  readonly carriesKfd: boolean;
  /** Bytes of its state file, when it holds anything. */
  readonly state?: Buffer;
}

/** A GPU process of the tree, as far as the plugin has told. */
export interface DumpedProcess {
  readonly ordinal: number;
  readonly pid: number;
  readonly comm: string;
  /** Missing when it uses render nodes alone: it is not paused. */
  readonly kfd?: Descriptor;
  readonly pidfd: Descriptor;
  /** Bytes of its state file. */
  state?: Buffer;
  /** With the BOs of its render files, which are behind those of KFD. */
  summary?: StateSummary;
  kfdBos?: number;
  readonly renderFiles: DumpedRender[];
  /** BO index to dma-buf. */
  readonly dmabufs: Map<number, Descriptor>;
}

export class DumpSession implements Cancellable {
  readonly #context: SessionContext;
  readonly #processes = new Map<number, DumpedProcess>();
  readonly #extFiles: ManifestExtFile[] = [];
  readonly #dmabufs = new HeldDmabufs();
  #host: Host | undefined;
  #shares: readonly SharedBo[] = [];
  #parent: ParentIndexes | undefined;
  #contents: DumpContents | undefined;
  /** The tree goes on before the image is sealed. */
  #sealedLater = false;
  #gatePassed = false;
  #sealing: Promise<void> | undefined;
  /** It goes on, or is about to: CRIU takes the image for good. */
  #goesOn = false;
  #pausedAt = 0;
  #gateAt = 0;
  #freezeUs: number | undefined;
  /** CRIU has, or is about to get, our word. */
  #decided = false;
  #accepted = false;
  #unpaused = false;
  #failure: KfdError | undefined;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** Ready to hear from the plugin when it returns. */
  async start(): Promise<void> {
    // A container checkpointed before in place leaves its old image in this directory.
    await removeImageFiles(this.#context.image);
    const { major, minor } = native().kfdVersion();
    this.#host = await readHost({ kfdVersion: `${major}.${minor}` });
    this.#parent = await parentIndexes(this.#context.request.criuPid);
    const handlers: [number, Handler][] = [
      [messageType.dumpRefused, (m) => this.#refused(m)],
      [messageType.dumpPause, (m) => this.#pause(m)],
      [messageType.dumpState, (m) => this.#state(m)],
      [messageType.dumpBuffers, (m) => this.#buffers(m)],
      [messageType.dumpRender, (m) => this.#render(m)],
      [messageType.dumpDmabuf, (m) => this.#dmabufs.hold(m) as undefined],
      [messageType.dumpBegin, (m) => this.#begin(m)],
      [messageType.dumpFile, (m) => this.#file(m)],
      [messageType.stage, (m) => this.#stage(m)],
      [messageType.dumpEnd, (m) => this.#end(m)],
      [messageType.dumpUnpaused, () => this.#hearUnpaused()],
      [messageType.dumpSeal, () => this.#sealLater()],
    ];
    converse(this.#context, new Map(handlers), (error) => {
      this.#failure ??= error;
    });
    this.#context.phases.enter('wait_for_tree');
  }

  /** After CRIU has ended: nothing stays paused, and no half image stays behind. */
  async finish(): Promise<SessionResult> {
    if (!this.#unpaused) unpauseSurvivors(this.processes, this.#context.log);
    // Begun when CRIU ended: what is complete is no half image.
    await this.#sealing?.catch(() => undefined);
    if (!this.#accepted) await this.#discard();
    this.#closeBuffers();
    for (const process of this.#processes.values()) {
      process.kfd?.close();
      process.pidfd.close();
    }
    const outcome = this.#accepted ? 'sealed' : 'abandoned';
    this.#context.log.info(
      {
        outcome,
        err: this.#failure,
        max_rss_bytes: process.resourceUsage().maxRSS * 1024,
        processes: this.#processes.size,
        timings_us: { ...this.#context.phases.timings(), ...this.#freeze },
      },
      'session ended',
    );
    return resultOf(outcome, this.#failure);
  }

  get processes(): DumpedProcess[] {
    return [...this.#processes.values()];
  }

  /** The container goes on when CRIU asks next. */
  cancel(reason: KfdError): void {
    if (this.#failure !== undefined) throw tooLate('the checkpoint has failed');
    if (this.#decided) throw tooLate('the image is complete');
    this.#failure = reason;
    this.#context.transfers.cancel();
  }

  #refused(message: Message): undefined {
    this.#failure = reportedFailure(message, 'E_UNSUPPORTED_STATE');
    this.#context.log.error({ err: this.#failure }, 'the plugin refused this container');
  }

  #pause(message: Message): undefined {
    const [ordinal = -1, pid = -1] = message.args;
    const [pidfd, kfd] = message.fds;
    if (pidfd === undefined) throw protocol('a pause without descriptors');
    const comm = message.body.toString('utf8');
    if (this.#processes.size === 0) this.#pausedAt = performance.now();
    this.#processes.set(ordinal, {
      ordinal,
      pid,
      comm,
      pidfd,
      ...(kfd && { kfd }),
      renderFiles: [],
      dmabufs: new Map(),
    });
    this.#context.phases.enter('read_state');
    this.#context.log.info({ process: ordinal, pid, comm, pauses: kfd !== undefined }, 'reading');
  }

  #state(message: Message): undefined {
    const process = this.#process(message);
    const memfd = message.fds[0];
    if (memfd === undefined) throw protocol('a state without its memfd');
    process.state = takeState(memfd);
    process.summary = native().stateSummary(process.state);
    process.kfdBos = process.summary.bos.length;
  }

  #render(message: Message): undefined {
    const process = this.#process(message);
    const [, number = -1, minor = -1, carriesKfd] = message.args;
    const [memfd] = message.fds;
    const state = memfd && takeState(memfd);
    process.renderFiles.push({
      number,
      minor,
      carriesKfd: carriesKfd === 1,
      ...(state && { state }),
    });
    if (state === undefined || process.summary === undefined) return;
    const { gpu_id: actual } = this.#gpuOf(minor).record;
    const device = process.summary.devices.find(({ actualGpuId }) => actualGpuId === actual);
    if (device === undefined) throw protocol(`renderD${minor} is no GPU of its process`);
    const summary = native().renderStateSummary(state);
    process.summary = withRenderBos(process.summary, [{ gpuId: device.userGpuId, summary }]);
    this.#context.log.info(
      { process: process.ordinal, minor, ...summary, bos: summary.bos.length },
      'render file',
    );
  }

  #buffers(message: Message): undefined {
    const process = this.#process(message);
    const indices = boIndices(message.body, message.fds.length);
    message.fds.forEach((dmabuf, i) => {
      process.dmabufs.set(indices[i] as number, dmabuf);
    });
  }

  #begin(message: Message): Answer {
    const { processes } = this;
    if (processes.length !== message.args[0]) throw protocol('a process is missing');
    this.#assertSound();
    this.#shares = findShares(processes);
    const foreign = this.#dmabufs.find(processes);
    const { checkPrivateData } = native();
    refuseUnrestorable(processes, this.#shares, this.#hostOrThrow(), checkPrivateData, foreign);
    this.#sealedLater = message.args[1] === 1 && this.#context.config.short_freeze;
    const parts = planDrain(this.#hostOrThrow(), processes, this.#shares);
    this.#context.phases.enter('overlap');
    this.#context.log.info(
      { processes: processes.length, parent: this.#parent?.archive, aside: this.#sealedLater },
      'draining',
    );
    this.#contents = new DumpContents(this.#context, parts, this.#parent, this.#sealedLater);
    return { text: this.#context.logPath };
  }

  #file(message: Message): undefined {
    const [criuId = -1, kind, what = -1, number] = message.args;
    if (kind === fileKind.dmabuf) {
      this.#dmabufs.file(criuId, what);
      return;
    }
    const process = what;
    if (kind === fileKind.kfd) {
      this.#extFiles.push({ criu_id: criuId, kind: 'kfd', process });
      return;
    }
    const file = this.#processes.get(process)?.renderFiles.find((one) => one.number === number);
    if (file === undefined) throw protocol(`render file ${number} was not announced`);
    this.#extFiles.push({
      criu_id: criuId,
      kind: file.carriesKfd ? 'render' : 'drm',
      process,
      gpu: this.#gpuOf(file.minor).record.ordinal,
      ...(file.state && { render_state: renderStateFileName(file.number) }),
    });
  }

  #gpuOf(minor: number): HostGpu {
    const gpu = this.#hostOrThrow().gpus.find(({ record }) => record.render_minor === minor);
    if (gpu === undefined) throw protocol(`renderD${minor} is none of KFD's GPUs`);
    return gpu;
  }

  async #stage(message: Message): Promise<Answer> {
    const stage = message.body.toString('utf8');
    this.#context.log.info({ stage }, 'stage');
    if (stage === 'post-dump') await this.#gate();
    return {};
  }

  async #gate(): Promise<void> {
    this.#assertSound();
    // The tree was looked at before it stopped: a GPU closed since then is no failure.
    if (this.#processes.size === 0) {
      this.#decided = true;
      return;
    }
    if (this.#contents === undefined) throw protocol('post-dump before any state was read');
    const { released, drained } = this.#contents;
    this.#gateAt = performance.now();
    this.#context.phases.enter('gate');
    await Promise.allSettled([this.#sealedLater ? released : drained]);
    this.#assertSound();
    await released;
    if (this.#contents.failure !== undefined) throw this.#contents.failure;
    await writeStates(this.#context.image, this.processes);
    this.#assertSound();
    this.#gatePassed = true;
    if (!this.#sealedLater) await this.#startSeal(await drained);
  }

  /** CRIU has let the tree go on, and waits with its end. */
  async #sealLater(): Promise<Answer> {
    if (this.#contents === undefined || !this.#goesOn) throw protocol('a seal before its time');
    this.#contents.treeGoesOn();
    this.#context.phases.enter('after_freeze');
    await Promise.allSettled([this.#contents.drained]);
    this.#assertSound();
    await this.#startSeal(await this.#contents.drained);
    return {};
  }

  #startSeal(drained: readonly DrainedFile[]): Promise<void> {
    this.#sealing = this.#seal(drained);
    return this.#sealing;
  }

  async #seal(drained: readonly DrainedFile[]): Promise<void> {
    this.#context.phases.enter('seal');
    this.#decided = true;
    checkSiblings(
      this.#context.image,
      drained.map(({ name, result }) => ({ name, summary: result })),
    );
    const timings = {
      ...this.#context.phases.timings(),
      ...this.#contents?.timings(this.#gateAt),
      ...this.#freeze,
    };
    await writeManifest(
      this.#context.image,
      composeManifest({
        host: this.#hostOrThrow(),
        processes: this.processes,
        extFiles: this.#extFiles,
        dmabufFiles: this.#dmabufs.files,
        shares: this.#shares,
        parent: this.#parent,
        drained,
        timings,
      }),
    );
    this.#accepted = true;
    this.#context.phases.enter('finish');
    this.#context.log.info(
      {
        content_bytes: drained.reduce((sum, file) => sum + file.result.contentBytes, 0),
        ...(this.#sealedLater && { copied_bytes: this.#contents?.copied }),
        timings_us: timings,
      },
      'sealed',
    );
  }

  /** The plugin asks whether the tree may stay paused: only when what it holds is safe on disk. */
  #end(message: Message): Answer {
    const [result = -1, finalState = -1] = message.args;
    this.#context.log.info(
      { result, final_state: finalState, accepted: this.#accepted },
      'dump ends',
    );
    if (result !== 0) this.#accepted = false;
    // Asked after the gate: a failure has been told there, or is told with the seal.
    this.#goesOn = result === 0 && this.#sealedLater && this.#gatePassed;
    if (this.#goesOn) {
      this.#closeBuffers(); // what the tree frees from now on is free
      return { args: [2] };
    }
    return { args: [this.#accepted ? 1 : 0] };
  }

  #hearUnpaused(): Answer {
    this.#unpaused = true;
    this.#freezeUs = Math.round((performance.now() - this.#pausedAt) * 1000);
    return {};
  }

  /** From the first pause to the end of all. */
  get #freeze(): Record<string, number> {
    return this.#freezeUs === undefined ? {} : { freeze: this.#freezeUs };
  }

  #closeBuffers(): void {
    for (const { dmabufs } of this.#processes.values()) {
      for (const dmabuf of dmabufs.values()) dmabuf.close();
    }
  }

  async #discard(): Promise<void> {
    this.#context.transfers.cancel();
    await this.#contents?.end();
    // An engine that was told of success keeps the image: states without a manifest say what it is.
    await removeImageFiles(this.#context.image, this.#goesOn ? pagesPattern : undefined);
  }

  #assertSound(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  #process(message: Message): DumpedProcess {
    const process = this.#processes.get(message.args[0] ?? -1);
    if (process === undefined) throw protocol(`process ${message.args[0]} was not announced`);
    return process;
  }

  #hostOrThrow(): Host {
    if (this.#host === undefined) throw new KfdError('E_INTERNAL', 'session: not started');
    return this.#host;
  }
}

function protocol(reason: string): KfdError {
  return new KfdError('E_PROTOCOL', `plugin: ${reason}`);
}
