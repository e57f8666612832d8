/**
 * The contents of a container on their way: a file here, a second ssh, a file there. The addon moves the bytes: they
 * never enter JavaScript.
 */

import { promises } from 'node:fs';
import { dirname, join } from 'node:path';
import type { SendFileJob } from '../addon.js';
import { asKfdError, isMissing, KfdError } from '../errors.js';
import { stage } from '../stages.js';
import type { ArchiveKind } from './engine.js';
import { lastFolder } from './gpu-folders.js';
import { type Places, previousName } from './places.js';
import { Ssh } from './ssh.js';
import { type Way, watched } from './watched.js';

/** The hidden verb that takes them. */
export const contentsVerb = 'migrate-contents';

/** Options of that verb. */
const optionsOf = ({ form, isPrevious }: ArchiveKind): string[] => [
  ...(form === 'task' ? ['--task'] : []),
  ...(isPrevious === true ? ['--previous'] : []),
];

/** The addon's: sends a file while it is still written. Its errors are KfdErrors. Throws E_IO. */
export type SendFile = (descriptor: number) => SendFileJob;

/** An archive that leaves this host, compressed, while the engine still writes it. */
export class ArchiveStream {
  readonly #job: SendFileJob;
  /** Resolves when the target has all of it. Rejects with the reason why it has not. */
  readonly arrived: Promise<void>;

  /**
   * `onProgress` gets the bytes of the file that are on their way. The signal ends it. Throws E_IO, E_USAGE, E_HOST
   * without ssh.
   */
  static async open(
    fd: number,
    way: Way,
    sendFile: SendFile,
    kind: ArchiveKind,
  ): Promise<ArchiveStream> {
    const { host, id } = way;
    const words = ['kfd-checkpoint', contentsVerb, ...optionsOf(kind), '--format', 'json', id];
    const job = sendFile(fd);
    // Where nobody waits for it any more, ssh has said why.
    job.done.catch(() => undefined);
    try {
      return new ArchiveStream(job, await Ssh.open(host, words, job.pipe.fd), way);
    } catch (error) {
      job.cancel();
      throw error;
    } finally {
      // ssh has it now, alone.
      job.pipe.close();
    }
  }

  private constructor(job: SendFileJob, ssh: Ssh, { now, signal, onProgress }: Way) {
    this.#job = job;
    ssh.child.stdout?.resume();
    const bytes = () => job.bytes();
    this.arrived = watched(ssh, { bytes, now, signal, onProgress, mayWait: true }).finally(() =>
      job.cancel(),
    );
    this.arrived.catch(() => undefined);
  }

  /** Nobody writes the archive any more. */
  end(): void {
    this.#job.end();
  }
}

/** Sends a whole file. Throws the reason of the other side, E_HOST, E_IO, E_TIMEOUT, E_CANCELLED after the signal. */
export async function sendContents(
  fd: number,
  way: Way,
  sendFile: SendFile,
  kind: ArchiveKind,
): Promise<void> {
  const stream = await ArchiveStream.open(fd, way, sendFile, kind);
  stream.end();
  await stream.arrived;
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

/** The addon's: takes the file of such a stream, of at most `limit` bytes. Its errors are KfdErrors. */
export type ReceiveFile = (pipe: number, file: number, limit: number) => Promise<unknown>;

/** Takes an archive of a migration from standard input. Throws E_NOT_FOUND, E_IO, E_IMAGE_CORRUPT, Node's error. */
export async function receiveContents(
  id: string,
  places: Places,
  receive: ReceiveFile,
  isPrevious: boolean,
): Promise<void> {
  const awaited = await awaitedArchive(id, places);
  const path = isPrevious ? join(dirname(awaited), previousName) : awaited;
  const file = await promises.open(path, 'wx', 0o600);
  stage('migrate-target', isPrevious ? 'memory' : 'taking');
  try {
    await orNoRoom(path, id, places, async () => receive(0, file.fd, await roomIn(dirname(path))));
  } finally {
    await file.close();
  }
}

/** Bytes that fit in. Throws Node's error. */
export async function roomIn(folder: string): Promise<number> {
  const { bavail, bsize } = await promises.statfs(folder);
  return bavail * bsize;
}

/** More than there is room for is refused before it is written. `path`: what is written. */
export async function orNoRoom(
  path: string,
  id: string,
  places: Places,
  work: () => Promise<unknown>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    const known = asKfdError(error, path);
    const { code, message } = known;
    if (code !== 'E_IO' && code !== 'E_UNSUPPORTED_STATE') throw known;
    throw new KfdError('E_IO', message, { cause: error, hint: roomHint(path, id, places) });
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
  const bytes = await roomIn(folder);
  stage('migrate-target', 'streaming');
  // The source stops nothing before it hears this.
  out('ready\n');
  await orNoRoom(path, id, places, () => unpack(0, folder, { files: maxFiles, bytes }));
}
