/** The archive of a task that moves, and of its memory: by tar, whatever is in the folder of the checkpoint. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { promises } from 'node:fs';
import { basename } from 'node:path';
import type { Descriptor } from '../addon.js';
import { KfdError, printable } from '../errors.js';
import { missing } from '../os/exec.js';
import { parentImage } from '../runtime/shim-names.js';

/** Names in the folder of a checkpoint. */
export const taskFiles = {
  image: 'checkpoint',
  changes: 'changes.tar.gz',
  record: 'record.json',
} as const;

/** The folder beside them with the memory of the task as it was before. */
export const previousFolder = basename(parentImage);

/** Of what tar says, characters. */
const maxReason = 1000;

/** The file `archive` gets these files of the folder. Throws E_IO, E_HOST without tar, Node's error. */
export async function packTask(
  folder: string,
  names: readonly string[],
  archive: string,
): Promise<void> {
  const words = ['-C', folder, '-cf', '-', ...names];
  await writtenBy('tar', words, archive, 'w', `make room for ${folder} once more`);
}

/** Where it does not start, the writer must see that nobody reads, too. */
function started(words: readonly string[], input: Pick<Descriptor, 'fd' | 'close'>) {
  try {
    return spawn('tar', words, { stdio: [input.fd, 'ignore', 'pipe'] });
  } finally {
    input.close();
  }
}

/**
 * Takes such an archive apart while it comes, into the folder. `archive` is closed when tar has it. What has other
 * names stays out. Throws E_IO where one is not there, E_HOST without tar.
 */
export async function unpackTask(
  archive: Pick<Descriptor, 'fd' | 'close'>,
  folder: string,
  names: readonly string[],
): Promise<void> {
  const words = ['-C', folder, '--no-same-owner', '-xf', '-', ...names];
  const tar = started(words, archive);
  let said = '';
  tar.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(0, maxReason);
  });
  const [status] = (await once(tar, 'close').catch((error: Error) => {
    throw missing('tar', error);
  })) as [number | null];
  if (status === 0) return;
  const reason = said.trim().split('\n')[0] || `tar ended with status ${status}`;
  throw new KfdError('E_IO', `what arrives cannot be unpacked: ${printable(reason)}`);
}

/** The file `path` gets what the program writes. Throws E_IO with the hint, Node's error. */
export async function writtenBy(
  program: string,
  words: readonly string[],
  path: string,
  flags: 'w' | 'wx',
  hint: string,
): Promise<void> {
  const file = await promises.open(path, flags, 0o600);
  try {
    const child = spawn(program, words, { stdio: ['ignore', file.fd, 'inherit'] });
    const [status] = (await once(child, 'close').catch((error: Error) => {
      throw missing(program, error);
    })) as [number | null];
    if (status !== 0) {
      throw new KfdError('E_IO', `${program}: ended with status ${status}`, { hint });
    }
  } finally {
    await file.close();
  }
}
