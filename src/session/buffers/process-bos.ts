/** The BOs of a process counted through: those of KFD, then those of its render files. docs/image-format.md. */

import type { RenderStateSummary, StateSummary } from '../../native.js';

/** What one render file of a process holds. */
export interface HeldRender {
  /** Its GPU, as the process knows it. */
  readonly gpuId: number;
  readonly summary: RenderStateSummary;
}

/** `summary` with the BOs of `files`, which are in the order of their numbers, behind its own. */
export function withRenderBos(summary: StateSummary, files: readonly HeldRender[]): StateSummary {
  const held = files.flatMap(({ gpuId, summary: { bos } }) =>
    bos.map(({ size, kind }) => ({ gpuId, size, kind })),
  );
  return { ...summary, bos: [...summary.bos, ...held] };
}

/** How many BOs of a recorded process are in its KFD state: they come first. */
export function kfdBos(process: {
  readonly summary: StateSummary;
  readonly renderStates: readonly { readonly firstBo: number }[];
}): number {
  return process.renderStates[0]?.firstBo ?? process.summary.bos.length;
}
