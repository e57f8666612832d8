/** The files of a checkpoint: contents, states, manifest, removal. */

import { removeImageFiles, removePagesFiles, writeManifest } from '../../manifest/image.js';
import type { SharedBo } from '../buffers/places.js';
import { checkSiblings } from '../buffers/siblings.js';
import type { DrainedFile } from '../contents/drain.js';
import { DumpContents } from '../contents/dump-contents.js';
import type { ParentIndexes } from '../contents/parent.js';
import type { TransferContext } from '../contents/transfer-context.js';
import type { DumpClock } from './clock.js';
import { composeManifest } from './compose-manifest.js';
import { planDrain } from './plan-drain.js';
import type { DumpRecord } from './record.js';
import { writeStates } from './state-files.js';

/** Events of the transfer of contents. */
export interface ContentsEvents {
  /** The tree's buffers have been read. */
  released(): void;
  drained(): void;
  failed(error: unknown): void;
}

export class DumpImage {
  readonly #context: TransferContext;
  readonly #record: DumpRecord;
  readonly #parent: ParentIndexes | undefined;
  #shares: readonly SharedBo[] = [];
  #contents: DumpContents | undefined;
  #drained: readonly DrainedFile[] = [];
  #aside = false;
  #removed: Promise<void> | undefined;

  constructor(context: TransferContext, record: DumpRecord, parent: ParentIndexes | undefined) {
    this.#context = context;
    this.#record = record;
    this.#parent = parent;
  }

  /** Begins to drain. `aside`: copies contents first, as far as there is room. Throws E_PROTOCOL, E_GPU_MISMATCH. */
  start(shares: readonly SharedBo[], aside: boolean, events: ContentsEvents): void {
    const { host, processes } = this.#record;
    const parts = planDrain(host, processes, shares);
    this.#shares = shares;
    this.#aside = aside;
    this.#context.log.info(
      { processes: processes.length, parent: this.#parent?.archive, aside },
      'draining',
    );
    const contents = new DumpContents(this.#context, parts, this.#parent, aside);
    this.#contents = contents;
    contents.released.then(events.released, events.failed);
    contents.drained.then((drained) => {
      this.#drained = drained;
      events.drained();
    }, events.failed);
  }

  /** Copies are drained from now on. */
  drainCopies(): void {
    this.#contents?.treeGoesOn();
  }

  /** Writes the state files. Throws Node's errors, E_PROTOCOL when a state never came. */
  writeStates(): Promise<void> {
    return writeStates(this.#context.image, this.#record.processes);
  }

  /** Writes the manifest. Throws Node's errors, E_IMAGE_CORRUPT. */
  async seal(clock: DumpClock): Promise<void> {
    const { image, contents, log } = this.#context;
    const { host, processes, extFiles, dmabufs, nodes } = this.#record;
    const drained = this.#drained;
    const files = drained.map(({ name, result }) => ({ name, summary: result }));
    checkSiblings(contents, files);
    const timings = { ...clock.timings(), ...this.#contents?.timings(clock.gateAt) };
    const manifest = composeManifest({
      host,
      processes,
      extFiles,
      dmabufFiles: dmabufs.files,
      shares: this.#shares,
      parent: this.#parent,
      detached: contents !== image,
      drained,
      timings,
      nodes,
    });
    await writeManifest(image, manifest);
    log.info(
      {
        content_bytes: drained.reduce((sum, file) => sum + file.result.contentBytes, 0),
        ...(this.#aside && { copied_bytes: this.#contents?.copied }),
        timings_us: timings,
      },
      'sealed',
    );
  }

  /** Removes the image after the transfers have stopped. */
  remove(): void {
    const { image, contents, log } = this.#context;
    const stays = (err: unknown) => log.error({ err }, 'the image of a failed checkpoint stays');
    const remove = async () => {
      await this.#contents?.end();
      // Contents of an image that stays would be useless, and the other way round.
      await removeImageFiles(image).catch(stays);
      if (contents !== image) await removePagesFiles(contents).catch(stays);
    };
    this.#removed = remove().catch(stays);
  }

  /** Waits for remove(). */
  async removed(): Promise<void> {
    await this.#removed;
  }
}
