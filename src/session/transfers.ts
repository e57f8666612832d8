/** The transfers of a session: on each GPU one file after the other, all GPUs at once; how far they are, and a way to stop them. */

import { fromNative, type TransferJob, type TransferResult } from '../native.js';
import { Lanes } from './lanes.js';

/** A pages file that is to be written or read. */
export interface TransferFile {
  readonly name: string;
  /** Ordinal of the GPU process. */
  readonly process: number;
  /** Of the GPU on this host. */
  readonly renderNode: string;
  /** Of contents, as long as they are in buffers. */
  readonly bytes: number;
}

export interface TransferProgress extends TransferFile {
  readonly done: number;
}

export class Transfers {
  readonly #lanes = new Lanes();
  readonly #jobs = new Map<string, TransferJob>();
  readonly #finished = new Set<string>();
  #expected: () => readonly TransferFile[] = () => [];

  /** What will be moved. Called when somebody asks for the progress, and not before. */
  expect(files: () => readonly TransferFile[]): void {
    let known: readonly TransferFile[] | undefined;
    this.#expected = () => {
      known ??= files();
      return known;
    };
  }

  /**
   * `start` begins the transfer of `file` when the earlier ones of `lane`, a GPU, are done: they share its link and the
   * staging budget. Rejects with E_GPU_IO, E_IO, E_IMAGE_CORRUPT, E_CANCELLED.
   */
  run(lane: number, file: string, start: () => TransferJob): Promise<TransferResult> {
    return this.#lanes.run(lane, async () => {
      try {
        const job = start();
        this.#jobs.set(file, job);
        const result = await job.done;
        this.#finished.add(file);
        return result;
      } catch (error) {
        throw fromNative(error, file);
      }
    });
  }

  /** Stops what runs; what has not begun never does. They reject with E_CANCELLED. */
  cancel(): void {
    this.#lanes.close();
    for (const job of this.#jobs.values()) job.cancel();
  }

  progress(): TransferProgress[] {
    return this.#expected().map((file) => ({ ...file, done: this.#doneOf(file) }));
  }

  #doneOf({ name, bytes }: TransferFile): number {
    if (this.#finished.has(name)) return bytes;
    return Math.min(bytes, this.#jobs.get(name)?.progress() ?? 0);
  }
}
