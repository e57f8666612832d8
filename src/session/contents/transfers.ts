/**
 * The transfers of a session, their progress, and their cancellation. All GPUs work at once; files of one GPU follow
 * each other.
 */

import { KfdError } from '../../errors.js';
import { fromNative, type TransferJob } from '../../native.js';
import { Lanes } from './lanes.js';
import type { StagingRing, StagingSource } from './staging.js';

/** A pages file that is written or read. */
export interface TransferFile {
  readonly name: string;
  /** Ordinal of the GPU process. */
  readonly process: number;
  /** Render minor of the GPU on this host. */
  readonly renderNode: string;
  /** Bytes of contents, as they are in buffers. */
  readonly bytes: number;
}

export interface TransferProgress extends TransferFile {
  readonly done: number;
  /** It waits for staging memory that other sessions use. */
  readonly waiting: boolean;
  /** Why the CPU copies; undefined: the configured engine does. */
  readonly engineReason: string | undefined;
}

/** A job instead of one that failed, and why it failed. */
export interface Replacement<Result> {
  readonly reason: string;
  readonly start: (ring: StagingRing) => TransferJob<Result>;
}

export class Transfers {
  readonly #lanes = new Lanes();
  readonly #jobs = new Map<string, TransferJob<unknown>>();
  readonly #finished = new Set<string>();
  readonly #waiting = new Set<string>();
  readonly #reasons = new Map<string, string>();
  readonly #decisions = new Map<number, unknown>();
  readonly #staging: StagingSource;
  #cancelled = false;
  #began: number | undefined;
  #expected: () => readonly TransferFile[] = () => [];

  constructor(staging: StagingSource) {
    this.#staging = staging;
  }

  /** The files that will be moved. Called only when somebody asks for the progress. */
  expect(files: () => readonly TransferFile[]): void {
    let known: readonly TransferFile[] | undefined;
    this.#expected = () => {
      known ??= files();
      return known;
    };
  }

  /**
   * Calls `start` when the earlier transfers of `lane` are done and the host has staging memory. A lane is a GPU: its
   * transfers share a link and a budget. `replace` gives a job for one that failed, or throws. Rejects with E_GPU_IO,
   * E_IO, E_IMAGE_CORRUPT, E_CANCELLED.
   */
  run<Result>(
    lane: number,
    file: string,
    start: (ring: StagingRing) => TransferJob<Result>,
    replace?: (error: unknown) => Replacement<Result>,
  ): Promise<Result> {
    return this.#lanes.run(lane, async () => {
      try {
        const { ring, giveBack } = await this.#claim(file);
        try {
          const result = await this.#do(file, () => start(ring)).catch((error: unknown) => {
            if (replace === undefined) throw error;
            const other = replace(error);
            this.#reasons.set(file, other.reason);
            return this.#do(file, () => other.start(ring));
          });
          this.#finished.add(file);
          return result;
        } finally {
          giveBack();
        }
      } catch (error) {
        throw fromNative(error, file);
      }
    });
  }

  async #do<Result>(file: string, start: () => TransferJob<Result>): Promise<Result> {
    if (this.#cancelled) throw new KfdError('E_CANCELLED', 'transfer: cancelled as it began');
    const job = start();
    this.#began ??= performance.now();
    this.#jobs.set(file, job);
    return job.done;
  }

  /** The value of the first call for this lane: what was decided for a GPU holds for all its files. */
  decideOnce<T>(lane: number, decide: () => T): T {
    if (!this.#decisions.has(lane)) this.#decisions.set(lane, decide());
    return this.#decisions.get(lane) as T;
  }

  /** Why the file's first job was replaced. */
  reasonOf(file: string): string | undefined {
    return this.#reasons.get(file);
  }

  /** All GPUs of the session transfer at the same time. */
  #claim(file: string) {
    const gpus = new Set(this.#expected().map(({ renderNode }) => renderNode));
    return this.#staging.claim(file, Math.max(1, gpus.size), {
      waiting: (is) => (is ? this.#waiting.add(file) : this.#waiting.delete(file)),
      cancelled: () => this.#cancelled,
    });
  }

  /** Stops running transfers; waiting ones never start. All of them reject with E_CANCELLED. */
  cancel(): void {
    this.#cancelled = true;
    this.#lanes.close();
    for (const job of this.#jobs.values()) job.cancel();
  }

  /** Microseconds since the first transfer began; 0 before. */
  get elapsedUs(): number {
    return this.#began === undefined ? 0 : Math.round((performance.now() - this.#began) * 1000);
  }

  progress(): TransferProgress[] {
    return this.#expected().map((file) => ({
      ...file,
      done: this.#doneOf(file),
      waiting: this.#waiting.has(file.name),
      engineReason: this.#reasons.get(file.name),
    }));
  }

  #doneOf({ name, bytes }: TransferFile): number {
    if (this.#finished.has(name)) return bytes;
    return Math.min(bytes, this.#jobs.get(name)?.progress() ?? 0);
  }
}
