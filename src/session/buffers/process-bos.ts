/** The numbering of a process's BOs: KFD's BOs first, then the BOs of its render files (docs/image-format.md). */

import type { RenderStateSummary, StateSummary } from '../../native.js';

/** What one render file of a process holds. */
export interface HeldRender {
  /** Its GPU, as the process knows it. */
  readonly gpuId: number;
  readonly summary: RenderStateSummary;
}

/** `summary`, followed by the BOs of `files`. `files` are in the order of their numbers. */
export function withRenderBos(summary: StateSummary, files: readonly HeldRender[]): StateSummary {
  const held = files.flatMap(({ gpuId, summary: { bos } }) =>
    bos.map(({ handle: _, ...bo }) => ({ gpuId, ...bo })),
  );
  return { ...summary, bos: [...summary.bos, ...held] };
}
