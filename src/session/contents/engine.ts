/**
 * The copy engine of a transfer. SDMA is the GPU's own. The CPU replaces it only where it sees the VRAM and is fast
 * enough: it is slow, and the container stands still meanwhile.
 */

import { KfdError } from '../../errors.js';
import type { HostGpu } from '../../gpu/host.js';
import type { Manifest } from '../../manifest/schema.js';
import type { TransferJob } from '../../native.js';
import type { StagingRing } from './staging.js';
import type { TransferContext } from './transfer-context.js';
import type { Replacement } from './transfers.js';

export type Engine = 'sdma' | 'cpu';

type Buffer = Pick<Manifest['buffers'][number], 'size' | 'kind'>;

/** A file to be copied, and what else the CPU would have to copy. */
export interface Copy {
  readonly operation: 'drain' | 'upload';
  /** See Transfers.run(). */
  readonly lane: number;
  readonly file: string;
  readonly gpu: HostGpu;
  /** All buffers of the session on this GPU. */
  readonly buffers: readonly Buffer[];
}

/**
 * Bytes per second that one thread of the CPU copies at least, estimates that no GPU was measured for. Reads of VRAM
 * are loads over PCIe that no cache helps. Writes are combined, and GTT is memory of the host.
 */
const cpuRates = {
  drain: { vram: 30e6, gtt: 1e9 },
  upload: { vram: 500e6, gtt: 1e9 },
} as const;

/** Seconds that the CPU needs at most. */
export function cpuSeconds({ operation, buffers }: Pick<Copy, 'operation' | 'buffers'>): number {
  return buffers.reduce((sum, { size, kind }) => sum + size / cpuRates[operation][kind], 0);
}

/**
 * Runs a transfer with the configured engine. With `auto`, the CPU copies when SDMA cannot be set up. Rejects with
 * E_GPU_IO where the CPU must not copy either, and like Transfers.run().
 */
export function copyWith<Result>(
  context: TransferContext,
  copy: Copy,
  start: (engine: Engine, ring: StagingRing) => TransferJob<Result>,
): Promise<Result> {
  const { config, transfers } = context;
  const { lane, file } = copy;
  if (config.engine === 'cpu') {
    const refusal = hiddenVram(copy);
    if (refusal !== undefined) return Promise.reject(refused(`${file}: the CPU`, refusal));
    return transfers.run(lane, file, (ring) => start('cpu', ring));
  }
  const replace = (error: unknown): Replacement<Result> => {
    const reason = allowCpu(context, copy, error);
    return { reason, start: (ring) => start('cpu', ring) };
  };
  const sdma = (ring: StagingRing) => start('sdma', ring);
  return transfers.run(lane, file, sdma, config.engine === 'auto' ? replace : undefined);
}

/** SDMA cannot be set up. An error in the middle of a transfer is another one. */
export function isEngineError(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && error.code === 'KFD_ENGINE';
}

/** Why SDMA failed. Throws `error` itself, or E_GPU_IO. */
function allowCpu({ config, log, transfers }: TransferContext, copy: Copy, error: unknown): string {
  if (!isEngineError(error)) throw error;
  const elapsed = copy.operation === 'upload' ? performance.now() / 1000 : 0;
  const refusal = transfers.decideOnce(
    copy.lane,
    () => hiddenVram(copy) ?? tooSlow(copy, config.gate_timeout_s, elapsed),
  );
  if (refusal !== undefined)
    throw refused(`${copy.file}: ${error.message}; the CPU`, refusal, error);
  const seconds = Math.ceil(cpuSeconds(copy));
  log.warn({ file: copy.file, reason: error.message, seconds }, 'the CPU copies');
  return error.message;
}

interface Refusal {
  readonly why: string;
  readonly hint: string;
}

/**
 * CPU access would move each such buffer, or end this process
 * (amdgpu_object.c:amdgpu_bo_fault_reserve_notify@6.12.118, @7.3.4).
 */
function hiddenVram({ gpu, buffers }: Copy): Refusal | undefined {
  if (gpu.vramHidden !== true || buffers.every(({ kind }) => kind !== 'vram')) return undefined;
  return {
    why: `does not see all VRAM of renderD${gpu.record.render_minor} (no large BAR)`,
    hint: 'switch Resizable BAR on in the firmware, or see the kernel log why SDMA fails',
  };
}

/** `elapsed`: seconds of the deadline that are over. */
function tooSlow(copy: Copy, limit: number, elapsed: number): Refusal | undefined {
  const seconds = Math.ceil(cpuSeconds(copy));
  if (seconds + elapsed <= limit) return undefined;
  return {
    why: `may need ${seconds} s for renderD${copy.gpu.record.render_minor}, and gate_timeout_s is ${limit}`,
    hint: 'see the kernel log why SDMA fails; "engine": "cpu" or a longer gate_timeout_s accepts the time',
  };
}

function refused(subject: string, { why, hint }: Refusal, cause?: unknown): KfdError {
  return new KfdError('E_GPU_IO', `${subject} ${why}`, { hint, cause });
}
