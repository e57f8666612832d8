/** Locks in the addon, on bytes of a file. They are free when their process ends, in any way. */

export interface ByteLocks {
  /**
   * Locks the bytes at these places, each below 2^53, or none of them: false when another process has one. Places must
   * ascend. Throws KFD_IO, KFD_PROTOCOL for another order.
   */
  take(places: readonly number[]): boolean;
  /** Returns all. */
  close(): void;
}
