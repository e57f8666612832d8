/** The state files of an image. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { KfdError } from '../../errors.js';
import { renderStateFileName, stateFileName } from '../../manifest/names.js';
import type { DumpedProcess } from './process.js';

/**
 * Writes the state files of all processes and render files. No such file may exist. Throws E_PROTOCOL when a state
 * never came.
 */
export async function writeStates(
  image: string,
  processes: readonly DumpedProcess[],
): Promise<void> {
  const write = (name: string, state: Buffer) =>
    writeFile(join(image, name), state, { mode: 0o600, flag: 'wx' });
  for (const { ordinal, state, renderFiles } of processes) {
    if (state === undefined) {
      throw new KfdError('E_PROTOCOL', `plugin: process ${ordinal} has no state`);
    }
    await write(stateFileName(ordinal), state);
    for (const file of renderFiles) {
      if (file.state !== undefined) await write(renderStateFileName(file.number), file.state);
    }
  }
}
