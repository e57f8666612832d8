/**
 * One restore: hands states and render files to the plugin in the restored tasks, uploads contents
 * while CRIU restores memory, and lets nothing run before every frame was verified.
 */

import { join } from 'node:path';
import { KfdError } from '../errors.js';
import type { Manifest } from '../manifest/schema.js';
import { type Descriptor, fromNative, native, type TransferJob } from '../native.js';
import type { Message, SessionContext } from './context.js';
import { type Answer, converse, type Handler } from './conversation.js';
import { renderNode } from './drain.js';
import { type Preflight, type PreparedProcess, preflight } from './preflight.js';
import { stagingRing } from './staging.js';
import { boIndices, fileKind, messageType } from './wire.js';

/** A process of the image on its way back. */
interface Returning {
  readonly prepared: PreparedProcess;
  /** The one render file that carries its GPU memory; the application's own is a copy of it. */
  render?: Descriptor;
  /** Host pid of the task that called RESTORE. */
  pid?: number;
  readonly dmabufs: Map<number, Descriptor>;
  upload?: Promise<void>;
  vmasMapped?: number;
}

export class RestoreSession {
  readonly #context: SessionContext;
  readonly #returning = new Map<number, Returning>();
  readonly #jobs: TransferJob[] = [];
  #plan: Preflight | undefined;
  #failure: KfdError | undefined;
  #resumed = false;
  #uploadBegan: number | undefined;
  #uploadEnded = 0;
  #gateBegan: number | undefined;
  #bytes = 0;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** Refuses what cannot work here, before any task exists. Throws KfdError with all reasons. */
  async start(): Promise<void> {
    this.#plan = await preflight(this.#context.image);
    for (const prepared of this.#plan?.processes ?? []) {
      this.#returning.set(prepared.ordinal, { prepared, dmabufs: new Map() });
    }
    const handlers: [number, Handler][] = [
      [messageType.openFile, (m) => this.#openFile(m)],
      [messageType.restoreBuffers, (m) => this.#buffers(m)],
      [messageType.restored, (m) => this.#restored(m)],
      [messageType.renderOpened, (m) => this.#renderOpened(m)],
      [messageType.renderFile, (m) => ({ fds: this.#known(this.#process(m)) })],
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
  async finish(): Promise<void> {
    for (const job of this.#jobs) job.cancel();
    await Promise.allSettled([...this.#returning.values()].map((process) => process.upload));
    this.#release();
    const timings = this.#context.phases.timings();
    this.#context.log.info(
      {
        outcome: this.#resumed ? 'restored' : 'failed',
        err: this.#failure,
        max_rss_bytes: process.resourceUsage().maxRSS * 1024,
        processes: this.#returning.size,
        content_bytes: this.#bytes,
        timings_us: { ...timings, ...this.#uploadTimings() },
      },
      'session ended',
    );
  }

  #openFile(message: Message): Answer {
    const file = this.#manifest().ext_files.find(({ criu_id }) => criu_id === message.args[0]);
    if (file === undefined) return { args: [fileKind.none] };
    const process = this.#returning.get(file.process);
    if (process === undefined) throw protocol(`process ${file.process} has no state`);
    const minor = this.#renderMinor();
    const render = this.#known(process);
    if (file.kind === 'render')
      return { args: [fileKind.render, file.process, minor], fds: render };
    this.#context.phases.enter('restore_state');
    const { state, summary } = process.prepared;
    const ids = summary.devices.map(({ actualGpuId }) => this.#presentId(actualGpuId));
    const memfd = native().stateForRestore(state, ids);
    return { args: [fileKind.kfd, file.process, minor], fds: [memfd, ...render] };
  }

  /** Opened by the task itself, in the container; the application's descriptor is a copy of it. */
  #renderOpened(message: Message): Answer {
    const process = this.#process(message);
    const [render] = message.fds;
    if (render === undefined) throw protocol('a render file without its descriptor');
    if (process.render !== undefined) throw protocol('a second render file for one process');
    process.render = render;
    return {};
  }

  #buffers(message: Message): undefined {
    const process = this.#process(message);
    const indices = boIndices(message.body, message.fds.length);
    message.fds.forEach((dmabuf, i) => {
      process.dmabufs.set(indices[i] as number, dmabuf);
    });
  }

  /** RESTORE zeroes the event page, so contents are uploaded only after it has returned. */
  async #restored(message: Message): Promise<Answer> {
    const process = this.#process(message);
    process.pid = message.pid;
    this.#uploadBegan ??= performance.now();
    this.#context.log.info({ process: process.prepared.ordinal, pid: message.pid }, 'uploading');
    const upload = this.#upload(process);
    process.upload = upload;
    upload.catch((error: unknown) => {
      this.#failure ??= fromNative(error, 'upload');
    });
    this.#context.phases.enter('overlap');
    if (!this.#context.config.parallel) await upload;
    return { text: this.#context.logPath };
  }

  async #upload(process: Returning): Promise<void> {
    const { ordinal } = process.prepared;
    const { config, log } = this.#context;
    for (const pair of this.#plan?.pairs ?? []) {
      const buffers = this.#manifest().buffers.filter(
        (buffer) => buffer.process === ordinal && buffer.gpu === pair.recorded.ordinal,
      );
      const [first] = buffers;
      if (first === undefined) continue;
      const job = new (native().TransferJob)({
        operation: 'upload',
        path: join(this.#context.image, first.pages_file),
        renderNode: renderNode(pair.present),
        engine: config.engine,
        ...stagingRing(config),
        buffers: buffers.map(({ id, size, bo_index }) => {
          const dmabuf = process.dmabufs.get(bo_index);
          if (dmabuf === undefined) throw protocol(`BO ${bo_index} came back without a dma-buf`);
          return { id, size, dmabuf };
        }),
      });
      this.#jobs.push(job);
      try {
        const result = await job.done;
        this.#bytes += result.bytes;
        log.info({ file: first.pages_file, result }, 'uploaded');
      } catch (error) {
        throw fromNative(error, first.pages_file);
      }
    }
    for (const dmabuf of process.dmabufs.values()) dmabuf.close();
    process.dmabufs.clear();
    this.#uploadEnded = performance.now();
  }

  #vmasMapped(message: Message): Answer {
    this.#process(message).vmasMapped = message.args[1] ?? 0;
    return {};
  }

  #failed(message: Message): undefined {
    this.#failure ??= new KfdError('E_GPU_IO', message.body.toString('utf8'));
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
    try {
      await this.#withDeadline(this.#allUploaded());
      this.#context.phases.enter('resume');
      this.#checkMappings();
      for (const process of this.#returning.values()) {
        if (process.pid !== undefined) native().kfdResume(process.pid);
      }
      this.#resumed = true;
    } catch (error) {
      // The tree dies when we answer: nothing of ours may keep its GPU memory alive then.
      for (const job of this.#jobs) job.cancel();
      await Promise.allSettled([...this.#returning.values()].map((process) => process.upload));
      this.#release();
      throw error;
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

  async #withDeadline(work: Promise<void>): Promise<void> {
    // From the session's start, for podman counts from its own: a late gate has less time left.
    const seconds = this.#context.config.gate_timeout_s;
    const left = Math.max(0, seconds * 1000 - performance.now());
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const reason = `upload: not finished ${seconds} s after the restore began`;
        const hint = 'raise gate_timeout_s; podman itself gives up a restore after 240 s';
        reject(new KfdError('E_TIMEOUT', reason, { hint }));
      }, left);
    });
    try {
      await Promise.race([work, deadline]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** CRIU ignores errors of its mapping hook: a mapping nobody reported is one that went wrong. */
  #checkMappings(): void {
    for (const { prepared, vmasMapped = 0 } of this.#returning.values()) {
      const expected = prepared.summary.vmas;
      if (vmasMapped !== expected) {
        const reason = `process ${prepared.ordinal}: ${vmasMapped} of ${expected} GPU mappings came back`;
        throw new KfdError('E_GPU_IO', reason);
      }
    }
  }

  #uploadTimings(): Record<string, number> {
    if (this.#uploadBegan === undefined || this.#uploadEnded === 0) return {};
    const us = (from: number, to: number) => Math.max(0, Math.round((to - from) * 1000));
    const gate = this.#gateBegan ?? this.#uploadEnded;
    return {
      upload: us(this.#uploadBegan, this.#uploadEnded),
      upload_overlapped: us(this.#uploadBegan, Math.min(this.#uploadEnded, gate)),
    };
  }

  #release(): void {
    for (const process of this.#returning.values()) {
      for (const dmabuf of process.dmabufs.values()) dmabuf.close();
      process.dmabufs.clear();
      process.render?.close();
    }
  }

  #known({ render }: Returning): Descriptor[] {
    return render === undefined ? [] : [render];
  }

  #renderMinor(): number {
    const [pair] = this.#plan?.pairs ?? [];
    if (pair === undefined)
      throw new KfdError('E_NO_GPU', 'no GPU takes the place of the recorded');
    return pair.present.record.render_minor;
  }

  #presentId(recordedId: number): number {
    const pair = this.#plan?.pairs.find(({ recorded }) => recorded.gpu_id === recordedId);
    if (pair === undefined) throw protocol(`GPU ${recordedId} is not in the manifest`);
    return pair.present.record.gpu_id;
  }

  #process(message: Message): Returning {
    const process = this.#returning.get(message.args[0] ?? -1);
    if (process === undefined) throw protocol(`process ${message.args[0]} is not in the image`);
    return process;
  }

  #manifest(): Manifest {
    if (this.#plan === undefined) throw new KfdError('E_INTERNAL', 'session: no image');
    return this.#plan.manifest;
  }
}

function protocol(reason: string): KfdError {
  return new KfdError('E_PROTOCOL', `restore: ${reason}`);
}
