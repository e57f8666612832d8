/**
 * GPU contents on their way while the checkpoint is made: a FIFO from the session, a second ssh, this program there.
 * The session writes the same files to a folder here, from which the source can bring the container back.
 */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, promises } from 'node:fs';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { asKfdError, type KfdError } from '../errors.js';
import { missing } from '../os/exec.js';
import { silent } from './connection.js';
import { contentsVerb } from './contents.js';
import { bytesBelow } from './gpu-folders.js';
import { answerMs } from './protocol/lease.js';
import { Ssh } from './ssh.js';
import { type Way, watched } from './watched.js';

/** Where the session of the checkpoint puts its pages files: real paths of a folder and of a FIFO. */
export interface Outlet {
  readonly folder: string;
  /** Missing: nothing is sent yet. */
  readonly stream?: string;
  /** The image directory of the checkpoint, where its session does not descend from this process. */
  readonly image?: string;
  /** The folder of the round before it, whose contents are left out. */
  readonly before?: string;
}

/** GPU contents that leave this host. */
export class ContentsStream {
  readonly #ssh: Ssh;
  readonly #ownEnd: number;
  readonly #stopped = new AbortController();
  #isOpen = true;
  /** Why the target has not all of them, as soon as that is known. */
  failure: KfdError | undefined;
  /** Resolves when the target has all of them. Rejects with the reason why it has not. */
  readonly arrived: Promise<void>;

  /**
   * Makes folder and FIFO. Resolves when the target waits for the contents: nothing has stopped yet. The signal ends
   * that wait alone. Throws why the target does not wait.
   */
  static async open(
    { folder, stream }: Required<Pick<Outlet, 'folder' | 'stream'>>,
    setting: Way,
  ): Promise<ContentsStream> {
    await promises.mkdir(folder, { mode: 0o700 });
    await promises.mkdir(dirname(stream), { recursive: true, mode: 0o700 });
    await promises.rm(stream, { force: true });
    await promisify(execFile)('mkfifo', ['-m', '600', stream]).catch((error: Error) => {
      throw missing('mkfifo', error);
    });
    // Opened for both, a FIFO waits for nobody (fifo(7)).
    const both = openSync(stream, 'r+');
    try {
      const reader = openSync(stream, 'r');
      try {
        const { host, id } = setting;
        const words = ['kfd-checkpoint', contentsVerb, '--stream', '--format', 'json', id];
        const ssh = await Ssh.open(host, words, reader);
        // Without it ssh would see an end before the session has opened the FIFO.
        const leaving = new ContentsStream(ssh, openSync(stream, 'w'), folder, setting);
        await leaving.#waited(setting);
        return leaving;
      } finally {
        closeSync(reader);
      }
    } finally {
      closeSync(both);
    }
  }

  private constructor(ssh: Ssh, ownEnd: number, folder: string, setting: Way) {
    this.#ssh = ssh;
    this.#ownEnd = ownEnd;
    ssh.child.stdout?.resume();
    const { now, onProgress, host } = setting;
    const { signal } = this.#stopped;
    const bytes = () => bytesBelow(folder);
    this.arrived = watched(ssh, { bytes, now, onProgress, signal, mayWait: true });
    this.arrived.catch((error: unknown) => {
      this.failure = asKfdError(error, host);
    });
  }

  async #waited({ host, signal }: Way): Promise<void> {
    const cancel = () => this.stop();
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
    const limit = new AbortController();
    const late = delay(answerMs, undefined, { signal: limit.signal }).then(() => {
      throw silent(host);
    });
    try {
      const ready = once(this.#ssh.child.stdout as Readable, 'data');
      await Promise.race([ready, this.arrived, late]);
    } catch (error) {
      this.stop();
      this.close();
      throw error;
    } finally {
      signal.removeEventListener('abort', cancel);
      limit.abort();
      late.catch(() => undefined);
    }
  }

  /** No process of this host writes any more: what has not been sent never will be. */
  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    closeSync(this.#ownEnd);
  }

  /** Ends ssh. The session's writes fail then, so that the checkpoint fails and the container goes on. */
  stop(): void {
    this.#stopped.abort();
  }
}
