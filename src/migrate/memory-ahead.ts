/**
 * Host memory that is sent ahead, after the last round: podman's pre-checkpoint, or the same by runc for a task of
 * containerd. The checkpoint then has only what has changed since. podman keeps the folder of a pre-checkpoint in the
 * bundle of a container that runs on.
 */

import { existsSync, promises } from 'node:fs';
import { join } from 'node:path';
import { KfdError } from '../errors.js';
import { unnamedFile } from '../os/temporary.js';
import { type SendFile, sendContents } from './contents.js';
import type { Engine } from './engine.js';
import { failureIn } from './failure-text.js';
import type { Way } from './watched.js';
import { lastLines, type Work } from './work.js';

export interface MemoryAheadSetting {
  readonly engine: Pick<Engine, 'form' | 'memoryAhead' | 'memoryAheadName'>;
  /** Folder for the archive on its way. It has no name there. */
  readonly store: string;
  /** The folder of what this source keeps. */
  readonly kept: string;
  /** Of that podman. */
  readonly log: string;
  readonly work: Work;
  readonly sendFile: SendFile;
}

/**
 * Resolves with the bytes that the target has, or with the reason why the engine has made none: the container runs on,
 * and all its memory comes with the checkpoint. Throws as `sendContents`.
 */
export async function sendMemory(
  { engine, store, kept, log, work, sendFile }: MemoryAheadSetting,
  way: Way,
): Promise<number | KfdError> {
  const file = await unnamedFile(store);
  try {
    await promises.writeFile(markIn(kept), '', { mode: 0o600 });
    const status = await work.run(engine.memoryAhead(), { descriptor: file.fd, log });
    if (way.signal.aborted) throw new KfdError('E_CANCELLED', 'migrate: interrupted');
    if (status !== 0) return failureIn(await lastLines(log), engine.memoryAheadName);
    await sendContents(file.fd, way, sendFile, { form: engine.form, isPrevious: true });
    return (await file.stat()).size;
  } finally {
    await file.close();
  }
}

/** That there may be the folder of a pre-checkpoint: another process may have to remove it. */
const markIn = (kept: string) => join(kept, '.memory-ahead');

/** Removes what the engine keeps of it, where the container runs here again. Never throws. */
export async function removeMemoryAhead(
  kept: string,
  engine: Pick<Engine, 'removeMemoryAhead'>,
): Promise<void> {
  if (existsSync(markIn(kept))) await engine.removeMemoryAhead();
}
