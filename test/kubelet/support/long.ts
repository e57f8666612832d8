/** Contents that are long, so that something can happen in the middle of a checkpoint or a restore. */

import { setLinkRate } from '../../e2e/support/gpu.js';
import { type Operation, runningSessionThat } from '../../e2e/support/session.js';

/** The driver resets a GPU whose copy of 16 MiB takes 10 s. */
const slowMbps = 4;

/** Takes most of a minute at that rate. */
export const longWorker = ['gpu-worker', '--vram-mib', '192', '--pending-barrier'];

/** Runs `body` while copies to and from VRAM are slow. */
export async function slowly<T>(body: () => Promise<T>): Promise<T> {
  setLinkRate(slowMbps);
  try {
    return await body();
  } finally {
    setLinkRate(0);
  }
}

/** Waits until the contents are on their way. */
export const inTheMiddleOf = (operation: Operation): Promise<void> =>
  runningSessionThat(operation, operation === 'dump' ? 'draining' : 'uploading');
