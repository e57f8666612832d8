/** A sentence at once for rootless podman, before CRIU or KFD fails on it. */

import { KfdError } from '../errors.js';
import { type Finding, fail } from './checks/finding.js';
import type { CommandContext } from './context.js';

const consequence = 'rootless podman can neither checkpoint nor restore';

/** For a verb that runs podman. Throws E_HOST unless it runs as root of the host. */
export async function assertHostRoot(
  verb: string,
  { whyNotRoot }: Pick<CommandContext, 'whyNotRoot'>,
): Promise<void> {
  const why = await whyNotRoot();
  if (why === undefined) return;
  throw new KfdError('E_HOST', `${verb}: ${why}: ${consequence}`, {
    hint: `start the container by "sudo podman run", and run "sudo kfd-checkpoint ${verb}"`,
  });
}

/** For `check`: nothing for root of the host. */
export async function userFindings({
  whyNotRoot,
}: Pick<CommandContext, 'whyNotRoot'>): Promise<Finding[]> {
  const why = await whyNotRoot();
  if (why === undefined) return [];
  const hint = 'start containers by "sudo podman run", and run "sudo kfd-checkpoint check"';
  return [fail('user', `${why}: ${consequence}`, hint)];
}
