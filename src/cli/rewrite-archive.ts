/** Writes a changed copy of an archive, with progress. */

import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { type Contents, rewriteArchive } from '../archive/rewrite.js';
import { ProgramFilter } from '../os/filter.js';
import type { CommandContext } from './context.js';
import { progressOf } from './progress.js';

/** Calls `rewriteArchive` for the descriptor `fd`. */
export async function rewriteTo(
  fd: number,
  path: string,
  replacements: ReadonlyMap<string, Contents>,
  context: CommandContext,
  quiet: boolean,
): Promise<void> {
  const { size: total } = await stat(path);
  const progress = progressOf(context);
  try {
    await rewriteArchive(path, fd, replacements, {
      zstdDecoder: context.native.zstdDecoder,
      zstdEncoder: () => new ProgramFilter('zstd', ['-1', '-q', '-T0', '-c']),
      signal: context.signal,
      ...(!quiet && { onProgress: (bytes) => progress.update(basename(path), bytes, total) }),
    });
  } finally {
    progress.end();
  }
}
