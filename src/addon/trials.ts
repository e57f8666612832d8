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

/** Times of the calls that stop the queues of a process and let them run again, microseconds. */
export interface PauseTrialResult {
  readonly pauses: number;
  /** Sums over all pauses, and the longest one. */
  readonly pauseUs: number;
  readonly longestPauseUs: number;
  readonly unpauseUs: number;
  readonly longestUnpauseUs: number;
}

export interface TrialJob<Result> {
  readonly done: Promise<Result>;
  /** `done` rejects with KFD_CANCELLED soon after. */
  cancel(): void;
}
