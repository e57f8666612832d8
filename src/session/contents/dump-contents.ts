/**
 * The contents of a dump on their way into pages files. They come straight from the buffers, or from copies (short
 * freeze). Copies are made while the tree is stopped. The tree runs while they are coded and written.
 */

import { fromNative, type ImageFrames, native, type Snapshot } from '../../native.js';
import { deferred } from '../deferred.js';
import { type DrainedFile, type DrainPart, drain, transferFile } from './drain.js';
import type { ParentIndexes } from './parent.js';
import { fromSnapshot, HostBudget, takeSnapshot } from './snapshot.js';
import type { TransferContext } from './transfer-context.js';

export class DumpContents {
  readonly #context: TransferContext;
  readonly #parts: readonly DrainPart[];
  readonly #parent: ParentIndexes | undefined;
  /** Missing for an image with one pages file: it has no other file to refer to. */
  readonly #frames: ImageFrames | undefined;
  readonly #copies = new Map<DrainPart, Snapshot>();
  /** Copies and drains. They may still run when another one has failed. */
  readonly #running: Promise<unknown>[] = [];
  readonly #continues = deferred();
  readonly #began = performance.now();
  #copiedAt: number | undefined;
  #drainedAt: number | undefined;
  /** The tree's buffers have been read: it may run. This and `drained` reject as soon as one file fails. */
  readonly released: Promise<void>;
  readonly drained: Promise<readonly DrainedFile[]>;

  /** Begins. `aside`: copies contents first, as far as there is room. */
  constructor(
    context: TransferContext,
    parts: readonly DrainPart[],
    parent: ParentIndexes | undefined,
    aside: boolean,
  ) {
    this.#context = context;
    this.#parts = parts;
    this.#parent = parent;
    this.#frames = parts.length > 1 ? new (native().ImageFrames)() : undefined;
    context.transfers.expect(() => parts.map(transferFile));
    const copied = aside ? this.#copyAside() : Promise.resolve();
    const begun = copied.then(() => this.#drain());
    this.released = begun.then(({ direct }) => direct);
    this.drained = begun.then(({ all }) => all);
    // They are awaited later; until then a failure must not end the process.
    this.released.catch(() => undefined);
    this.drained.catch(() => undefined);
  }

  /** Copies are drained from now on. Before this call CRIU has the processors, because the tree is stopped. */
  treeGoesOn(): void {
    this.#continues.resolve();
  }

  /**
   * Microseconds since the beginning, up to now for steps that have not ended. `gate`: the moment from which the tree
   * waits for contents alone.
   */
  timings(gate: number): Record<string, number> {
    const now = performance.now();
    const drainedAt = this.#drainedAt ?? now;
    const us = (end: number) => Math.round((end - this.#began) * 1000);
    return {
      ...(this.#copiedAt !== undefined && { snapshot: us(this.#copiedAt) }),
      drain: us(drainedAt),
      drain_overlapped: us(Math.min(drainedAt, gate)),
    };
  }

  /** Bytes copied to each kind of memory. */
  get copied(): Record<Snapshot['place'], number> {
    const bytes = { vram: 0, host: 0, none: 0 };
    for (const part of this.#parts) {
      bytes[this.#copies.get(part)?.place ?? 'none'] += transferFile(part).bytes;
    }
    return bytes;
  }

  /** Called after a cancel, or when everything is drained. */
  async end(): Promise<void> {
    this.treeGoesOn();
    this.#context.stream?.stop();
    await Promise.allSettled([this.released, this.drained]);
    await Promise.allSettled(this.#running);
    this.#forget(this.#parts);
  }

  /** Starts all files. Files of one GPU follow each other. */
  async #copyAside(): Promise<void> {
    const budget = new HostBudget(this.#context.config.freeze_host_mib);
    const copies = this.#parts.map(async (part) => {
      const snapshot = await takeSnapshot(this.#context, part, budget);
      if (snapshot !== undefined) this.#copies.set(part, snapshot);
    });
    this.#running.push(...copies);
    await Promise.all(copies);
    this.#copiedAt = performance.now();
  }

  /** Begins with the work that the tree waits for. The rest follows when the tree runs. */
  #drain(): { direct: Promise<void>; all: Promise<DrainedFile[]> } {
    const begun = new Map<DrainPart, Promise<DrainedFile>>();
    const isDirect = (part: DrainPart) => !this.#copies.has(part);
    for (const part of this.#parts.filter(isDirect)) begun.set(part, this.#drainPart(part));
    const direct = Promise.all(begun.values()).then(() => undefined);
    for (const part of this.#parts) {
      if (begun.has(part)) continue;
      begun.set(
        part,
        this.#continues.promise.then(() => this.#drainPart(part)),
      );
    }
    const drains = this.#parts.map((part) => begun.get(part) as Promise<DrainedFile>);
    this.#running.push(...drains);
    const all = Promise.all(drains).then(async (files) => {
      // The image is sealed only when all of it has left this host.
      await this.#context.stream?.finish().catch((error: unknown) => {
        throw fromNative(error, 'contents on their way');
      });
      this.#drainedAt = performance.now();
      return files;
    });
    return { direct, all };
  }

  async #drainPart(part: DrainPart): Promise<DrainedFile> {
    const copy = this.#copies.get(part);
    const from = copy === undefined ? part : fromSnapshot(part, copy);
    try {
      const sameGpu = this.#parts.filter(({ gpu }) => gpu === part.gpu);
      const ofGpu = sameGpu.flatMap(({ buffers }) => buffers);
      return await drain(this.#context, from, this.#parent, this.#frames, ofGpu);
    } finally {
      this.#forget([part]);
    }
  }

  /** Closes the memory of the copies. Their statistics stay. */
  #forget(parts: readonly DrainPart[]): void {
    for (const part of parts)
      this.#copies.get(part)?.memory.forEach((memory) => void memory.close());
  }
}
