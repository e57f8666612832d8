/**
 * Before a restore of podman's container in place: an earlier one may block it. podman was killed in its middle, and
 * the runtime has the container, of which podman knows nothing.
 */

import { KfdError } from '../errors.js';
import { PodmanContainer } from '../migrate/podman.js';
import type { CommandContext } from './context.js';
import type { Container } from './restore-target.js';

/**
 * Ends such a container where it has no processes. Throws E_HOST where it has some, because what they have computed
 * would be lost; as PodmanContainer.leftover, and Node's error.
 */
export async function clearWay(
  { id, path }: Container,
  root: string,
  { run, err }: Pick<CommandContext, 'run' | 'err'>,
): Promise<void> {
  const container = new PodmanContainer(id, run, root);
  const left = await container.leftover(path);
  if (left === undefined) return;
  if (left.runs) throw runsUnknown(id, left.runtime);
  await container.endLeftover();
  err(`removed what a killed restore had left of the container at ${left.runtime}\n`);
}

function runsUnknown(id: string, runtime: string): KfdError {
  const message = `a killed restore has left the container running at ${runtime}, and podman does not know it`;
  const hint = `"${runtime} delete --force ${id}" ends it, with what it has computed since; then repeat`;
  return new KfdError('E_HOST', message, { hint });
}
