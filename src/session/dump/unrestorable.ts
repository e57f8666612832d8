/** Reasons against a checkpoint that only the states show. After a refusal the pause is undone. */

import { KfdError } from '../../errors.js';
import { kfdObjectsOf } from '../../gpu/kfd-objects.js';
import { fromNative } from '../../native.js';
import { type SharedBo, waitingCircle } from '../buffers/places.js';
import type { KernelLimits } from './kernel-limits.js';
import type { DumpedProcess } from './process.js';

/**
 * Throws E_UNSUPPORTED_STATE with all reasons and with `others`. `checkPrivateData` is the addon's: it throws when the
 * private data of a state file has an unknown layout.
 */
export function refuseUnrestorable(
  processes: readonly DumpedProcess[],
  shares: readonly SharedBo[],
  limits: KernelLimits,
  checkPrivateData: (state: Buffer) => void,
  others: readonly string[] = [],
): void {
  const reasons = [
    ...circleReasons(processes, shares),
    ...layoutReasons(processes, shares, checkPrivateData),
    ...queueReasons(processes, limits),
    ...others,
  ];
  if (reasons.length > 0) throw new KfdError('E_UNSUPPORTED_STATE', reasons.join('; '));
}

function who({ pid, comm }: DumpedProcess): string {
  return `pid ${pid} (${comm})`;
}

function circleReasons(
  processes: readonly DumpedProcess[],
  shares: readonly SharedBo[],
): readonly string[] {
  const byOrdinal = new Map(processes.map((process) => [process.ordinal, process]));
  const circle = waitingCircle(
    shares,
    ({ process, bo_index: index }) => index >= (byOrdinal.get(process)?.kfdBos ?? 0),
  );
  if (circle === undefined) return [];
  const names = circle.flatMap((ordinal) => {
    const process = byOrdinal.get(ordinal);
    return process ? [who(process)] : [];
  });
  const circular = 'each shares a buffer which another one of them has made on a render node';
  return [`${names.join(', ')}: ${circular}: such a circle cannot be restored`];
}

/** A restore exchanges a shared BO by means of the private data. */
function layoutReasons(
  processes: readonly DumpedProcess[],
  shares: readonly SharedBo[],
  checkPrivateData: (state: Buffer) => void,
): readonly string[] {
  return processes.flatMap((process) => {
    const { ordinal, state, kfdBos = 0 } = process;
    const exchanges = shares.some((share) => share.process === ordinal && share.bo_index < kfdBos);
    if (!exchanges || state === undefined) return [];
    try {
      checkPrivateData(state);
      return [];
    } catch (error) {
      const { message } = fromNative(
        error,
        `${who(process)}: its shared GPU buffers cannot be restored`,
      );
      return [message];
    }
  });
}

/** The kernel saves these queues without an error. The table says what RESTORE does with them. */
function queueReasons(processes: readonly DumpedProcess[], limits: KernelLimits): string[] {
  return processes.flatMap((process) => {
    const { state, summary } = process;
    if (state === undefined || summary?.numObjects === 0) return [];
    const objects = kfdObjectsOf(state);
    if (objects === undefined) {
      return [`${who(process)}: its KFD state has a layout that is not known here`];
    }
    return limits.afterPause(objects).map((why) => `${who(process)}: ${why}`);
  });
}
