/** Reasons against a restore on a host. */

import type { ErrorCode } from '../errors.js';
import type { Difference, ManifestGpu } from '../manifest/schema.js';

/** One reason why a restore here would fail. */
export interface Mismatch {
  readonly code: ErrorCode;
  /** "<subject>: <reason>". */
  readonly message: string;
  /** What to do next. */
  readonly hint: string;
  /** Ordinal of the recorded GPU, if the reason concerns one. */
  readonly gpu?: number;
  /** What `ignore_mismatch` must name for a restore in spite of this. Missing: nothing helps. */
  readonly difference?: Difference;
}

/** The name of a recorded GPU in messages: with its render node on the source host. */
export function gpuName(gpu: ManifestGpu): string {
  return `gpu ${gpu.ordinal} (renderD${gpu.render_minor})`;
}
