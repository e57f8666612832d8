/** GPU contents of a round ahead on their way: tar here, a second ssh, tar there. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promises, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { KfdError } from '../errors.js';
import { missing } from '../os/exec.js';
import { stage } from '../stages.js';
import { awaitedArchive, contentsVerb, roomHint } from './contents.js';
import { roundFolder } from './gpu-folders.js';
import type { Places } from './places.js';
import { Ssh } from './ssh.js';
import { type Way, watched } from './watched.js';

/**
 * Sends the files of a round. Throws the reason of the other side, E_HOST, E_IO for a file that cannot be read,
 * E_TIMEOUT where nothing goes on, E_CANCELLED after `signal`.
 */
export async function sendRound(
  folder: string,
  round: number,
  { host, id, now, signal, onProgress }: Way,
): Promise<void> {
  const tar = spawn('tar', ['-C', folder, '-cf', '-', '.'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await once(tar, 'spawn').catch((error: Error) => {
    throw missing('tar', error);
  });
  const packed = once(tar, 'exit') as Promise<[number | null]>;
  const output = tar.stdout as Readable;
  try {
    const words = ['kfd-checkpoint', contentsVerb, '--round', `${round}`, '--format', 'json', id];
    const ssh = await Ssh.open(host, words, output);
    // ssh has it now, alone.
    output.destroy();
    ssh.child.stdout?.resume();
    await watched(ssh, { bytes: () => bytesRead(tar), now, signal, onProgress });
    const [read] = await packed;
    if (read !== 0)
      throw new KfdError('E_IO', `${folder}: cannot be read`, { hint: 'see its disk' });
  } finally {
    output.destroy();
    tar.kill();
  }
}

/** proc_pid_io(5); 0 when it has ended. */
function bytesRead({ pid }: ChildProcess): number {
  try {
    return Number(/^rchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** Takes the files of a round from standard input. Throws E_NOT_FOUND, E_IO, Node's error. */
export async function receiveRound(id: string, round: number, places: Places): Promise<void> {
  const path = await awaitedArchive(id, places);
  const folder = roundFolder(dirname(path), round);
  await promises.mkdir(folder, { mode: 0o700 });
  stage('migrate-target', 'ahead');
  const child = spawn('tar', ['-C', folder, '-xf', '-', '--no-same-owner'], {
    stdio: ['inherit', 'ignore', 'inherit'],
  });
  const [status] = (await once(child, 'close').catch((error: Error) => {
    throw missing('tar', error);
  })) as [number | null];
  if (status === 0) return;
  throw new KfdError('E_IO', `${folder}: cannot be written`, { hint: roomHint(path, id, places) });
}
