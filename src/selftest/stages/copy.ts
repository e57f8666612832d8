/** Stage copy: the engine that moves contents, in both directions, with every byte compared. */

import type { CopyTrialOptions, CopyTrialResult } from '../../addon.js';
import { asKfdError, KfdError } from '../../errors.js';
import { type Bench, gpuName, renderNode, type TestGpu } from '../bench.js';
import type { Stage, StageWork } from '../stage.js';

export interface CopyStageOptions {
  readonly bench: Bench;
  readonly tryCopies: (options: CopyTrialOptions, signal: AbortSignal) => Promise<CopyTrialResult>;
  /** The CPU copies as well, after SDMA. */
  readonly byCpu: boolean;
}

/** Copies in flight. 32 is the most that a context of amdgpu can have. */
const slotCounts = [1, 2, 4, 8, 16, 32] as const;
/** As many as a checkpoint has by default (staging_mib). */
const usualSlots = 32;
/** A frame of a pages file. */
const slotBytes = 2 << 20;
/** The CPU engine has one copy at a time. */
const cpuSlots = 4;

export function copyStage(options: CopyStageOptions): Stage {
  return { name: 'copy', usesGpu: true, run: (work) => tryAll(options, work) };
}

async function tryAll({ bench, tryCopies, byCpu }: CopyStageOptions, work: StageWork) {
  let seed = 0;
  const tried = async (gpu: TestGpu, engine: 'sdma' | 'cpu', slots: number) => {
    seed += 1;
    const options = { renderNode: renderNode(gpu), engine, slots, slotBytes, bytes: bench.bytes };
    try {
      return await tryCopies({ ...options, seed }, work.signal);
    } catch (error) {
      throw named(error, gpu);
    }
  };
  for (const gpu of bench.gpus) {
    for (const slots of slotCounts) {
      note(work, `${gpuName(gpu)}, ${slots} in flight`, await tried(gpu, 'sdma', slots));
    }
  }
  if (bench.gpus.length > 1) {
    // Waits for all of them: none may still run when the stage is over.
    const ends = await Promise.allSettled(bench.gpus.map((gpu) => tried(gpu, 'sdma', usualSlots)));
    const failed = ends.find((end) => end.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    const results = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
    note(work, `${bench.gpus.length} GPUs at once`, together(results));
  }
  if (!byCpu) return;
  for (const gpu of bench.gpus) {
    note(work, `${gpuName(gpu)}, by the CPU`, await tried(gpu, 'cpu', cpuSlots));
  }
}

function note(work: StageWork, name: string, { bytes, writeUs, readUs }: CopyTrialResult): void {
  work.step({ name: `${name}, to VRAM`, us: writeUs, bytes });
  work.step({ name: `${name}, from VRAM`, us: readUs, bytes });
}

/** They began together: the slowest has the time of all. */
function together(results: readonly CopyTrialResult[]): CopyTrialResult {
  return {
    bytes: results.reduce((sum, { bytes }) => sum + bytes, 0),
    writeUs: Math.max(...results.map(({ writeUs }) => writeUs)),
    readUs: Math.max(...results.map(({ readUs }) => readUs)),
  };
}

function named(error: unknown, gpu: TestGpu): KfdError {
  const known = asKfdError(error, 'copy');
  const isFull = /no \d+ MiB to spare/.test(known.message);
  const hint = isFull
    ? 'give a smaller --size, or free VRAM'
    : /came back as/.test(known.message)
      ? 'the GPU, its memory or its link is defective, or SDMA differs from what is known: report this'
      : known.hint;
  const code = isFull ? 'E_VRAM' : known.code;
  return new KfdError(code, `${gpuName(gpu)}: ${known.message}`, {
    cause: known,
    ...(hint !== undefined && { hint }),
  });
}
