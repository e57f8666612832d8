/** A checkpoint that leaves this host: GPU contents while it is made, the archive of podman after it. */

import { type FileHandle, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { KfdError } from '../errors.js';
import { unnamedFile } from '../os/temporary.js';
import { momentNow } from './clock.js';
import { sendContents } from './contents.js';
import { failureIn } from './failure-text.js';
import type { SourceRecord } from './journal.js';
import type { Link } from './link.js';
import { placesBelow } from './places.js';
import { bytesBelow, ContentsStream, type Outlet } from './stream.js';
import { lastLines, type Work } from './work.js';

export interface LeavingSetting {
  /** Folder of the system. */
  readonly root: string;
  /** Folder for the archive on its way. It has no name there. */
  readonly store: string;
  /** Bytes of GPU contents, as far as they are known. */
  readonly contentBytes: number;
  /** Calls `work` while the session of a checkpoint that it makes finds the outlet. */
  readonly whileAsked: <T>(outlet: Outlet, work: () => Promise<T>) => Promise<T>;
  /** Ends what is being sent. */
  readonly signal: AbortSignal;
  readonly onProgress: (bytes: number, total: number) => void;
}

export class Leaving {
  readonly #record: SourceRecord;
  readonly #setting: LeavingSetting;
  readonly #outlet: Outlet;
  readonly #log: string;
  readonly #given = new AbortController();
  #archive: FileHandle | undefined;
  #stream: ContentsStream | undefined;

  constructor(record: SourceRecord, setting: LeavingSetting) {
    const { id, container_id: containerId } = record;
    const places = placesBelow(setting.root);
    this.#record = record;
    this.#setting = setting;
    this.#outlet = { folder: join(places.kept, id), stream: places.fifo(containerId) };
    this.#log = places.log(containerId);
  }

  /**
   * Checkpoints the container by podman, when the target waits for the contents. Podman leaves the image in the bundle,
   * and the session the contents in a folder: both bring the container back. Throws why it cannot be.
   */
  async make(work: Work): Promise<void> {
    const { store, onProgress, contentBytes, root, whileAsked } = this.#setting;
    const { id, host = '', container_id: containerId } = this.#record;
    const archive = await unnamedFile(store);
    this.#archive = archive;
    const stream = await ContentsStream.open(this.#outlet, {
      host,
      id,
      now: () => momentNow(root),
      signal: this.#given.signal,
      onProgress: (bytes) => onProgress(bytes, Math.max(bytes, contentBytes)),
    });
    this.#stream = stream;
    const words = ['container', 'checkpoint', '--compress', 'none', '--export'];
    const options = { descriptor: archive.fd, log: this.#log };
    const checkpoint = () =>
      work.run('podman', [...words, '/proc/self/fd/4', containerId], options);
    // A session takes a folder by its real path alone.
    const outlet = { ...this.#outlet, folder: await realpath(this.#outlet.folder) };
    const status = await whileAsked(outlet, checkpoint).finally(() => stream.close());
    if (status === 0) return;
    // Where the target was the reason, podman knows only that the checkpoint failed.
    const { failure } = stream;
    stream.stop();
    throw failure ?? failureIn(await lastLines(this.#log), 'podman container checkpoint');
  }

  /** Sends what is left. Returns the bytes of the archive. Throws as `sendContents`. */
  async send(link: Pick<Link, 'say'>): Promise<number> {
    const { signal, root, onProgress } = this.#setting;
    const { id, host = '' } = this.#record;
    const [file, stream] = [this.#archive, this.#stream];
    if (file === undefined || stream === undefined)
      throw new KfdError('E_INTERNAL', 'migration: nothing to send');
    // Whoever brings the container back does not wait for an ssh that hangs.
    this.#archive = undefined;
    try {
      const { size } = await file.stat();
      const before = bytesBelow(this.#outlet.folder);
      link.say({ type: 'coming', id, bytes: before + size });
      const until = AbortSignal.any([signal, this.#given.signal]);
      until.addEventListener('abort', () => stream.stop(), { once: true });
      await stream.arrived;
      const progress = (bytes: number) => onProgress(before + bytes, before + size);
      await sendContents(host, id, file.fd, until, () => momentNow(root), progress);
      progress(size);
      return size;
    } finally {
      await file.close();
    }
  }

  /** Ends a wait for the target. A checkpoint that has begun has another end: its session is cancelled. */
  cancel(): void {
    this.#given.abort();
  }

  /** Ends what is being sent: the container comes back. */
  async stop(): Promise<void> {
    this.cancel();
    this.#stream?.stop();
    await this.#archive?.close();
    this.#archive = undefined;
  }

  /** Options of `restore` for the image in the bundle. */
  get options(): string[] {
    const { folder } = this.#outlet;
    return bytesBelow(folder) > 0 ? ['--contents', folder] : [];
  }

  /** What is here of it. The next migration removes what stays. */
  async remove(): Promise<void> {
    const { folder, stream } = this.#outlet;
    await rm(folder, { recursive: true, force: true }).catch(() => undefined);
    await rm(stream, { force: true }).catch(() => undefined);
  }
}
