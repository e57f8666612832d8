/** The contents of a container on their way: a file here, a second ssh, cat(1) there. They never enter JavaScript. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { promises, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { asKfdError, isMissing, KfdError } from '../errors.js';
import { missing } from '../os/exec.js';
import { stage } from '../stages.js';
import { lastFolder } from './gpu-folders.js';
import { type Places, previousName } from './places.js';
import { Ssh } from './ssh.js';
import { type Way, watched } from './watched.js';

/** The hidden verb that takes them. */
export const contentsVerb = 'migrate-contents';

/** Option of that verb: the archive is one of memory that is sent ahead. */
const previousOption = '--previous';

/** Which archive it is. */
export type ArchiveKind = 'checkpoint' | 'previous';

/**
 * Sends a whole file. `onProgress` gets the bytes that ssh has taken. Throws the reason of the other side, E_HOST,
 * E_TIMEOUT where nothing goes on, E_CANCELLED after `signal`.
 */
export async function sendContents(
  fd: number,
  { host, id, now, signal, onProgress }: Way,
  kind: ArchiveKind = 'checkpoint',
): Promise<void> {
  const option = kind === 'previous' ? [previousOption] : [];
  const words = ['kfd-checkpoint', contentsVerb, ...option, '--format', 'json', id];
  const ssh = await Ssh.open(host, words, fd);
  ssh.child.stdout?.resume();
  await watched(ssh, { bytes: () => positionOf(fd), now, signal, onProgress });
}

/** How far a child has read a descriptor that it shares with this process: proc_pid_fdinfo(5). */
function positionOf(fd: number): number {
  return Number(/^pos:\s+(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? 0);
}

/** The archive that a migration waits for. Throws E_NOT_FOUND, Node's error. */
export async function awaitedArchive(id: string, places: Places): Promise<string> {
  return promises.readlink(places.contents(id)).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    throw new KfdError('E_NOT_FOUND', `migration ${id}: nobody waits for its contents`, {
      hint: 'run "kfd-checkpoint migrate" on the source',
    });
  });
}

/** Takes an archive of a migration from standard input. Throws E_NOT_FOUND, E_IO, Node's error. */
export async function receiveContents(
  id: string,
  places: Places,
  kind: ArchiveKind = 'checkpoint',
): Promise<void> {
  const awaited = await awaitedArchive(id, places);
  const path = kind === 'previous' ? join(dirname(awaited), previousName) : awaited;
  const file = await promises.open(path, 'wx', 0o600);
  stage('migrate-target', kind === 'previous' ? 'memory' : 'taking');
  try {
    const child = spawn('cat', [], { stdio: ['inherit', file.fd, 'inherit'] });
    const [status] = (await once(child, 'close').catch((error: Error) => {
      throw missing('cat', error);
    })) as [number | null];
    if (status === 0) return;
    throw new KfdError('E_IO', `${path}: cannot be written`, { hint: roomHint(path, id, places) });
  } finally {
    await file.close();
  }
}

/** Where what arrives finds no room: `archive` is the place of the archive. */
export function roomHint(archive: string, id: string, places: Places): string {
  const folder = dirname(archive);
  if (folder === places.memory(id))
    return 'more arrives than was promised: name a folder with --store';
  return `make room in ${dirname(folder)}, or name another folder with --store`;
}

/** The addon's: makes the pages files of a contents stream in a folder. */
export type Unpack = (
  fd: number,
  folder: string,
  limits: { readonly files: number; readonly bytes: number },
) => Promise<unknown>;

/** As many as a host has room for; a container has one for each process and GPU. */
const maxFiles = 65_536;

/** Takes GPU contents from standard input, while they are made. Throws E_NOT_FOUND, E_IO, E_IMAGE_CORRUPT. */
export async function receiveStream(
  id: string,
  places: Places,
  unpack: Unpack,
  out: (text: string) => void,
): Promise<void> {
  const path = await awaitedArchive(id, places);
  const folder = lastFolder(dirname(path));
  await promises.mkdir(folder, { mode: 0o700 });
  const { bavail, bsize } = await promises.statfs(folder);
  stage('migrate-target', 'streaming');
  // The source stops nothing before it hears this.
  out('ready\n');
  try {
    await unpack(0, folder, { files: maxFiles, bytes: bavail * bsize });
  } catch (error) {
    const known = asKfdError(error, folder);
    const { code, message } = known;
    // More than there is room for is refused before it is written.
    if (code !== 'E_IO' && code !== 'E_UNSUPPORTED_STATE') throw known;
    throw new KfdError('E_IO', message, { cause: error, hint: roomHint(path, id, places) });
  }
}
