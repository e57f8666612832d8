/** A checkpoint that leaves this host: rounds ahead, GPU contents while it is made, the engine's archive after it. */

import { type FileHandle, mkdir, realpath, rm } from 'node:fs/promises';
import { KfdError } from '../errors.js';
import type { ListPages } from '../manifest/ancestors.js';
import { unnamedFile } from '../os/temporary.js';
import { sendRound } from './ahead.js';
import { momentNow } from './clock.js';
import { ArchiveStream, type SendFile } from './contents.js';
import type { Command, Engine } from './engine.js';
import { failureIn } from './failure-text.js';
import { bytesBelow, contentsOptions, lastFolder, roundFolder } from './gpu-folders.js';
import type { SourceRecord } from './journal.js';
import type { Link } from './link.js';
import { sendMemory } from './memory-ahead.js';
import { placesBelow } from './places.js';
import type { HostSetting } from './setting.js';
import { SpareSession } from './spare-session.js';
import { ContentsStream, type Outlet } from './stream.js';
import { lastLines, type Work } from './work.js';

/** What has been done while a session could find an outlet. */
export interface Asked<T> {
  readonly done: T;
  /** Since when the container stands still, by performance.now(). undefined: its session has not told. */
  readonly frozenAt: number | undefined;
}

/** Tells a moment: of now, or by performance.now(). */
export type Mark = (moment: 'stop' | 'frozen', at?: number) => void;

export interface LeavingSetting {
  /** Folder of the system. */
  readonly root: string;
  readonly self: HostSetting['self'];
  readonly listPages: ListPages;
  readonly sendFile: SendFile;
  /** Folder for the archive on its way. It has no name there. */
  readonly store: string;
  /** Rounds in which contents are sent ahead, while the container runs. */
  readonly rounds: number;
  /** Host memory is sent ahead, too, after the last one. */
  readonly sendsMemory: boolean;
  /** Bytes of GPU contents, as far as they are known. */
  readonly contentBytes: number;
  /** Calls `work` while the session of a checkpoint that it makes finds the outlet. Resolves with what is `done`. */
  readonly whileAsked: <T>(outlet: Outlet, work: () => Promise<T>) => Promise<Asked<T>>;
  /** Ends what is being sent. */
  readonly signal: AbortSignal;
  readonly onProgress: (bytes: number, total: number) => void;
  /** Rounds that are over, for whoever waits. */
  readonly onRound: (round: number) => void;
  /**
   * Hears, after all rounds, the bytes of contents that had changed between the last two; undefined with fewer rounds.
   * Throws why the container must not stop.
   */
  readonly beforeStop: (changedBytes: number | undefined) => Promise<void>;
  /** Why no memory is sent ahead. */
  readonly onNoMemory: (reason: KfdError) => void;
}

export class Leaving {
  readonly #record: SourceRecord;
  readonly #setting: LeavingSetting;
  readonly #engine: Engine;
  readonly #work: Work;
  readonly #folder: string;
  readonly #fifo: string;
  readonly #log: string;
  readonly #given = new AbortController();
  #archive: FileHandle | undefined;
  #sending: ArchiveStream | undefined;
  #stream: ContentsStream | undefined;
  /** Of memory that was sent ahead. */
  #memoryBytes = 0;
  /** Bytes to send, as far as they are known. */
  #total: number;

  constructor(record: SourceRecord, setting: LeavingSetting, engine: Engine, work: Work) {
    const { id, container_id: containerId } = record;
    const places = placesBelow(setting.root);
    this.#record = record;
    this.#setting = setting;
    this.#engine = engine;
    this.#work = work;
    this.#total = setting.contentBytes;
    this.#folder = places.keptOf(id);
    this.#fifo = places.fifo(containerId);
    this.#log = places.log(containerId);
  }

  /**
   * Checkpoints the container by its engine, after the rounds, when the target waits for the contents. The engine
   * leaves the image on this host, and the session the contents in a folder: both bring the container back. The archive
   * is sent while the engine writes it. `mark` hears when that begins, and since when the container stands still.
   * Throws why it cannot be.
   */
  async make(mark: Mark, link: Pick<Link, 'say'>): Promise<void> {
    const { rounds, onRound, beforeStop, self } = this.#setting;
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const folder = await realpath(this.#folder);
    let before: string | undefined;
    let changed: number | undefined;
    for (let round = 0; round < rounds; round += 1) {
      const own = roundFolder(folder, round);
      const bytes = await this.#ahead(own, round, before);
      if (round > 0) changed = bytes;
      if (bytes > 0) before = own;
      onRound(round);
    }
    await beforeStop(changed);
    const session = SpareSession.start(self);
    try {
      const hasMemory = await this.#memoryAhead();
      const archive = await this.#openWays(
        { folder: lastFolder(folder), stream: this.#fifo },
        link,
      );
      const command = this.#engine.checkpoint(hasMemory);
      await this.#last(archive, command, { folder, ...(before && { before }) }, mark);
    } finally {
      session.release();
    }
  }

  /** Resolves when the target waits for contents, and ssh for the archive, which is returned. */
  async #openWays(outlet: Required<Pick<Outlet, 'folder' | 'stream'>>, link: Pick<Link, 'say'>) {
    const { store, sendFile } = this.#setting;
    const archive = await unnamedFile(store);
    this.#archive = archive;
    // The target gets ready meanwhile.
    link.say({ type: 'coming', id: this.#record.id, bytes: this.#total });
    const onContents = (bytes: number) => this.#tell(bytes);
    const onArchive = (bytes: number) => bytes > 0 && this.#tell(this.#before + bytes);
    this.#stream = await ContentsStream.open(outlet, { ...this.#way, onProgress: onContents });
    try {
      const way = { ...this.#way, onProgress: onArchive };
      this.#sending = await ArchiveStream.open(archive.fd, way, sendFile, this.#engine);
    } catch (error) {
      this.#stream.stop();
      this.#stream.close();
      throw error;
    }
    return archive;
  }

  /** The checkpoint that stops it. */
  async #last(
    archive: FileHandle,
    command: Command,
    { folder, before }: Outlet,
    mark: Mark,
  ): Promise<void> {
    const stream = this.#stream as ContentsStream;
    const outlet = { folder: lastFolder(folder), stream: this.#fifo, ...(before && { before }) };
    const last = { descriptor: archive.fd, onBegin: () => mark('stop') };
    const made = this.#checkpoint(command, outlet, last).finally(() => stream.close());
    const { done: status, frozenAt } = await made;
    if (frozenAt !== undefined) mark('frozen', frozenAt);
    if (status === 0) return this.#sending?.end();
    // Where the target was the reason, the engine knows only that the checkpoint failed.
    const { failure } = stream;
    stream.stop();
    throw failure ?? (await this.#failure());
  }

  /** A checkpoint after which the container goes on; then its contents are sent. Returns their bytes. */
  async #ahead(folder: string, round: number, before: string | undefined): Promise<number> {
    await mkdir(folder, { mode: 0o700 });
    const asked = { folder, ...(before && { before }) };
    const { done: status } = await this.#checkpoint(this.#engine.round(), asked);
    if (status !== 0) throw await this.#failure();
    const bytes = bytesBelow(folder);
    if (bytes > 0)
      await sendRound(folder, round, { ...this.#way, onProgress: (sent) => this.#tell(sent) });
    return bytes;
  }

  /** Whether the target has the memory as it was a moment ago. */
  async #memoryAhead(): Promise<boolean> {
    const { sendsMemory, store, onNoMemory } = this.#setting;
    if (!sendsMemory) return false;
    const setting = {
      engine: this.#engine,
      store,
      kept: this.#folder,
      log: this.#log,
      work: this.#work,
      sendFile: this.#setting.sendFile,
    };
    const tell = (bytes: number) => this.#tell(bytes);
    const sent = await sendMemory(setting, { ...this.#way, onProgress: tell });
    if (typeof sent === 'number') this.#memoryBytes = sent;
    else onNoMemory(sent);
    return typeof sent === 'number';
  }

  /** `onBegin`: what the round before has is known, and the engine begins. */
  #checkpoint(
    command: Command,
    outlet: Outlet,
    { descriptor, onBegin }: { readonly descriptor?: number; readonly onBegin?: () => void } = {},
  ) {
    const options = { log: this.#log, ...(descriptor !== undefined && { descriptor }) };
    const { dumpImage: image } = this.#engine;
    return this.#setting.whileAsked({ ...outlet, ...(image && { image }) }, () => {
      onBegin?.();
      return this.#work.run(command, options);
    });
  }

  async #failure(): Promise<KfdError> {
    return failureIn(await lastLines(this.#log), this.#engine.checkpointName);
  }

  get #way() {
    const { id, host = '' } = this.#record;
    const now = () => momentNow(this.#setting.root);
    return { id, host, now, signal: this.#given.signal };
  }

  #tell(bytes: number): void {
    this.#setting.onProgress(bytes, Math.max(bytes, this.#total));
  }

  /** Bytes that the target has when the archive comes. */
  get #before(): number {
    const { kept } = this.#engine;
    const inArchive = kept === undefined ? 0 : bytesBelow(kept);
    return this.#memoryBytes + bytesBelow(this.#folder) - inArchive;
  }

  /** Waits for what is still on its way. Returns the bytes of the archive. Throws as `sendContents`. */
  async send(link: Pick<Link, 'say'>): Promise<number> {
    const file = this.#archive;
    if (file === undefined) throw new KfdError('E_INTERNAL', 'migration: nothing to send');
    // Whoever brings the container back does not wait for an ssh that hangs.
    this.#archive = undefined;
    const { signal } = this.#setting;
    const cancel = () => void this.stop();
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
    try {
      const { size } = await file.stat();
      this.#total = this.#before + size;
      link.say({ type: 'coming', id: this.#record.id, bytes: this.#total });
      await this.#stream?.arrived;
      await this.#sending?.arrived;
      this.#tell(this.#total);
      return size;
    } finally {
      signal.removeEventListener('abort', cancel);
      await file.close();
    }
  }

  /** Ends a wait for the target, and a round. The last checkpoint has another end: its session is cancelled. */
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
    return contentsOptions(this.#folder, this.#setting.listPages);
  }

  /** What is here of it. The next migration removes what stays. */
  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true }).catch(() => undefined);
    await rm(this.#fifo, { force: true }).catch(() => undefined);
  }
}
