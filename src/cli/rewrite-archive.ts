/** Writes a changed copy of an archive, with progress, and finds a place for it. */

import { type FileHandle, stat, statfs } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { type Contents, type RewriteOptions, rewriteArchive } from '../archive/rewrite.js';
import { asKfdError, KfdError } from '../errors.js';
import { ProgramFilter } from '../os/filter.js';
import { temporaryRoot, unnamedFile } from '../os/temporary.js';
import type { CommandContext } from './context.js';
import { size } from './format.js';
import { progressOf } from './progress.js';

type RewriteChoices = { readonly quiet: boolean } & Pick<
  RewriteOptions,
  'layers' | 'leaveOut' | 'plain'
>;

/** Calls `rewriteArchive` for the descriptor `fd`. */
export async function rewriteTo(
  fd: number,
  path: string,
  replacements: ReadonlyMap<string, Contents>,
  context: CommandContext,
  { quiet, ...how }: RewriteChoices,
): Promise<void> {
  const { size: total } = await stat(path);
  const progress = progressOf(context);
  try {
    await rewriteArchive(path, fd, replacements, {
      ...how,
      zstdDecoder: context.native.zstdDecoder,
      zstdEncoder: () => new ProgramFilter('zstd', ['-1', '-q', '-T0', '-c']),
      signal: context.signal,
      ...(!quiet && { onProgress: (bytes) => progress.update(basename(path), bytes, total) }),
    });
  } finally {
    progress.end();
  }
}

/**
 * Opens a file without a name, in $TMPDIR or beside the archive. Throws E_IO when there is no room for a
 * copy of the archive and of its layers.
 */
export async function temporaryFile(paths: readonly string[]): Promise<FileHandle> {
  const folder = temporaryRoot(dirname(paths[0] ?? '.'));
  const hint = 'set TMPDIR to a folder with room for a copy of the archive';
  try {
    const { bavail, bsize } = await statfs(folder);
    const sizes = await Promise.all(paths.map((path) => stat(path)));
    const needed = sizes.reduce((sum, one) => sum + one.size, 0);
    if (bavail * bsize < needed) {
      const reason = `${size(needed)} are needed, ${size(bavail * bsize)} are free`;
      throw new KfdError('E_IO', `${folder}: no room for a copy of the archive: ${reason}`, {
        hint,
      });
    }
    return await unnamedFile(folder);
  } catch (error) {
    const known = asKfdError(error, folder);
    throw known.hint === undefined ? new KfdError(known.code, known.message, { hint }) : known;
  }
}
