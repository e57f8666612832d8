/** Uploading the contents of all processes. */

import { KfdError } from '../../errors.js';
import type { GpuPair } from '../../gpu/pair.js';
import type { Manifest } from '../../manifest/schema.js';
import { type Descriptor, native } from '../../native.js';
import { renderNode } from './drain.js';
import { copyWith } from './engine.js';
import type { TransferContext } from './transfer-context.js';
import type { TransferFile } from './transfers.js';

/** The image, and the GPUs that replace the recorded ones. */
export interface UploadPlan {
  readonly manifest: Manifest;
  readonly pairs: readonly GpuPair[];
  /** Paths of each pages file and of its ancestors, by its name. */
  readonly pages: ReadonlyMap<string, readonly [own: string, ...parents: string[]]>;
}

export class Uploads {
  readonly #context: TransferContext;
  readonly #plan: UploadPlan;
  /** One for each file. */
  readonly #running: Promise<void>[] = [];
  #began: number | undefined;
  #ended = 0;
  #bytes = 0;

  constructor(context: TransferContext, plan: UploadPlan) {
    this.#context = context;
    this.#plan = plan;
    context.transfers.expect(() => expected(plan));
  }

  /** Bytes of contents uploaded. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Fills the buffers of process `ordinal`; the keys of `dmabufs` are BO indices. Files of one GPU follow each other,
   * because they share its link and the staging budget. Rejects with E_GPU_IO, E_IMAGE_CORRUPT, E_CANCELLED as soon as
   * one file fails: others may still run, and nobody needs them.
   */
  async start(ordinal: number, dmabufs: ReadonlyMap<number, Descriptor>): Promise<void> {
    this.#began ??= performance.now();
    const files = this.#plan.pairs.map((pair) => this.#file(pair, ordinal, dmabufs));
    this.#running.push(...files);
    await Promise.all(files);
    this.#ended = performance.now();
  }

  /** Stops running uploads and waits for their end. Afterwards no descriptor is in use. */
  async cancel(): Promise<void> {
    this.#context.transfers.cancel();
    await Promise.allSettled(this.#running);
  }

  /**
   * Timings in microseconds. `gate`: the time of post-restore by performance.now(). Empty before the first upload has
   * ended.
   */
  timings(gate: number | undefined): Record<string, number> {
    if (this.#began === undefined || this.#ended === 0) return {};
    const us = (from: number, to: number) => Math.max(0, Math.round((to - from) * 1000));
    return {
      upload: us(this.#began, this.#ended),
      upload_overlapped: us(this.#began, Math.min(this.#ended, gate ?? this.#ended)),
    };
  }

  async #file(
    { recorded, present }: GpuPair,
    ordinal: number,
    dmabufs: ReadonlyMap<number, Descriptor>,
  ): Promise<void> {
    const { log } = this.#context;
    const buffers = this.#plan.manifest.buffers.filter(
      (buffer) => buffer.process === ordinal && buffer.gpu === recorded.ordinal,
    );
    const [first] = buffers;
    if (first === undefined) return;
    const { pages_file: file, gpu } = first;
    const ofGpu = this.#plan.manifest.buffers.filter((buffer) => buffer.gpu === gpu);
    const [path, ...parents] = pathsOf(this.#plan, file);
    const copy = { lane: gpu, file, gpu: present, buffers: ofGpu };
    const result = await copyWith(
      this.#context,
      { operation: 'upload', ...copy },
      (engine, ring) => {
        return new (native().TransferJob)({
          operation: 'upload',
          path,
          ...(parents.length > 0 && { parents }),
          renderNode: renderNode(present),
          engine,
          ...ring,
          buffers: buffers.map(({ id, size, bo_index }) => ({
            id,
            size,
            dmabuf: dmabufOf(dmabufs, bo_index),
          })),
        });
      },
    );
    this.#bytes += result.bytes;
    log.info({ file, result }, 'uploaded');
  }
}

function pathsOf({ pages }: UploadPlan, file: string) {
  const paths = pages.get(file);
  if (paths === undefined) throw new KfdError('E_INTERNAL', `upload: no path of ${file}`);
  return paths;
}

/** All files of an image. */
function expected({ manifest, pairs }: UploadPlan): TransferFile[] {
  const files = new Map<string, { -readonly [key in keyof TransferFile]: TransferFile[key] }>();
  for (const { pages_file: name, process, gpu, size } of manifest.buffers) {
    const file = files.get(name);
    const pair = pairs.find(({ recorded }) => recorded.ordinal === gpu);
    if (file !== undefined) file.bytes += size;
    else if (pair !== undefined) {
      files.set(name, { name, process, renderNode: renderNode(pair.present), bytes: size });
    }
  }
  return [...files.values()];
}

function dmabufOf(dmabufs: ReadonlyMap<number, Descriptor>, index: number): Descriptor {
  const dmabuf = dmabufs.get(index);
  if (dmabuf !== undefined) return dmabuf;
  throw new KfdError('E_PROTOCOL', `restore: BO ${index} came back without a dma-buf`);
}
