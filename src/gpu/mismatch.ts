/** The vocabulary of "would not restore here". */

import type { ErrorCode } from '../errors.js';
import type { ManifestGpu } from '../manifest/schema.js';

/** One reason why a restore here would fail. */
export interface Mismatch {
  readonly code: ErrorCode;
  /** "<subject>: <reason>". */
  readonly message: string;
  /** What to do next. */
  readonly hint: string;
  /** Ordinal of the recorded GPU, when it is about one. */
  readonly gpu?: number;
}

/** How a recorded GPU is named in sentences: with its render node at the source. */
export function gpuName(gpu: ManifestGpu): string {
  return `gpu ${gpu.ordinal} (renderD${gpu.render_minor})`;
}
