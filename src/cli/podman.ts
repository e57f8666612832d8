/** Runs podman for a verb that prepares its work. */

import { KfdError } from '../errors.js';
import type { CommandContext } from './context.js';
import { KnownFailure } from './failure.js';

export interface PodmanResult {
  readonly status: number;
  /** Its standard output, where our own is JSON. Else podman has printed it itself. */
  readonly printed: string;
}

/**
 * `podman [globals] container args`. `descriptor` becomes podman's descriptor 3. Throws E_HOST without podman.
 */
export async function podman(
  args: readonly string[],
  descriptor: number | undefined,
  format: 'text' | 'json',
  { runThrough, signal }: CommandContext,
  globals: readonly string[] = [],
): Promise<PodmanResult> {
  let printed = '';
  const collect = (text: string) => {
    printed += text;
  };
  const into = format === 'json' ? collect : undefined;
  const words = [...globals, 'container', ...args];
  const status = await runThrough('podman', words, descriptor, signal, into);
  return { status, printed };
}

/** Podman has said the reason itself, except podman 6, which names no log of CRIU. Its status becomes ours. */
export function podmanFailure({ status, printed }: PodmanResult): KnownFailure {
  const error = new KfdError('E_IO', `podman: ended with status ${status}`, {
    hint:
      "see what podman has printed before this line, and CRIU's log, dump.log or restore.log, " +
      'in the folder that "podman inspect --format {{.StaticDir}} CONTAINER" names',
    details: { status, podman_output: printed },
  });
  return new KnownFailure(status, error);
}
