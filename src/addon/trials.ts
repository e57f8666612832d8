/** Trials in the addon: of the copy engines, and of pauses. */

export interface CopyTrialOptions {
  readonly renderNode: string;
  readonly engine: 'sdma' | 'cpu';
  /** The staging ring: `slots` pinned pieces of `slotBytes`. */
  readonly slots: number;
  readonly slotBytes: number;
  /** VRAM that it allocates. */
  readonly bytes: number;
  /** Contents of trials with different seeds have nothing in common. */
  readonly seed: number;
}

/** Times of the copies alone, microseconds. */
export interface CopyTrialResult {
  readonly bytes: number;
  readonly writeUs: number;
  readonly readUs: number;
}

export interface TrialJob<Result> {
  readonly done: Promise<Result>;
  /** `done` rejects with KFD_CANCELLED soon after. */
  cancel(): void;
}
