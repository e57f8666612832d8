/**
 * A restore of podman's container in place, which an earlier one may have blocked: podman was killed in its middle, and
 * the runtime has the container of which podman knows nothing.
 */

import { KfdError } from '../errors.js';
import { PodmanContainer } from '../migrate/podman.js';
import type { CommandContext } from './context.js';

/**
 * Calls `work`. Where that fails because of such a container, it is ended if it has no processes, and `work` is called
 * once more. Throws E_HOST where it has some: what they have computed would be lost. Else throws as `work`.
 */
export async function inPlace<T>(
  id: string,
  root: string,
  work: () => Promise<T>,
  { run, signal, err }: CommandContext,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (signal.aborted) throw error;
    const container = new PodmanContainer(id, run, root);
    // The failure of the restore says more than one of this question.
    const left = await container.leftover().catch(() => undefined);
    if (left === undefined) throw error;
    if (left.runs) throw runsUnknown(id, left.runtime, error);
    await container.endLeftover();
    err(`${left.runtime} had the container from a killed restore: that is removed, once more\n`);
    return work();
  }
}

function runsUnknown(id: string, runtime: string, cause: unknown): KfdError {
  const message = `a killed restore has left the container running at ${runtime}, and podman does not know it`;
  const hint = `"${runtime} delete --force ${id}" ends it, with what it has computed since; then repeat`;
  return new KfdError('E_HOST', message, { cause, hint });
}
