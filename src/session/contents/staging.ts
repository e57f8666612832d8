/** The staging ring of one transfer and its workers: by the configured budgets, of a GPU and of the host. */

import { availableParallelism } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../../config.js';
import { stagingFile } from '../../criu/state-folder.js';
import { KfdError } from '../../errors.js';
import type { Logger } from '../../log.js';
import { native } from '../../native.js';

/** Content per frame and per slot, bytes (docs/image-format.md allows 1 to 4 MiB). */
export const frameBytes = 2 << 20;

/** More copies in flight than this gain nothing and cost memory. */
const maxSlots = 32;
/** Workers wait for disks as well as for cores, and from here on only for each other. */
const minWorkers = 4;
const maxWorkers = 16;
/** What a worker may keep beside its slot, frames: compressed content, and that of several buffers. */
const framesPerWorker = 2;
/** What the host's staging memory is given out in, MiB: the least that a transfer works with. */
const pieceMib = 8;
/** How often those that wait look, ms. One that waits less than `quietMs` is not worth a word. */
const pollMs = 20;
const quietMs = 100;

export interface StagingRing {
  readonly slots: number;
  readonly slotBytes: number;
  readonly workers: number;
}

/** `cores`: those this process may use. Half of the budget at most is for the workers. */
export function stagingRing(
  config: Pick<Config, 'staging_mib'>,
  cores = availableParallelism(),
): StagingRing {
  const frames = Math.floor((config.staging_mib << 20) / frameBytes);
  const wanted = Math.max(minWorkers, Math.min(maxWorkers, cores));
  const workers = Math.min(wanted, Math.floor(frames / (2 * framesPerWorker)));
  const slots = Math.min(maxSlots, frames - workers * framesPerWorker);
  return { slots, slotBytes: frameBytes, workers };
}

/** Staging memory for one transfer, until it is given back. */
export interface Staging {
  readonly ring: StagingRing;
  giveBack(): void;
}

/** How a waiting transfer reports, and how it is stopped. */
export interface StagingWait {
  waiting(is: boolean): void;
  cancelled(): boolean;
}

/** Where transfers get their staging memory from. */
export interface StagingSource {
  /** For one of `transfers` that this session runs at once. Rejects with E_CANCELLED, E_IO. */
  claim(file: string, transfers: number, wait: StagingWait): Promise<Staging>;
}

/** The staging memory that all sessions of this host share. */
export class HostStaging implements StagingSource {
  readonly #config: Pick<Config, 'staging_mib' | 'staging_total_mib'>;
  readonly #log: Pick<Logger, 'info'>;
  readonly #file: string;

  constructor(
    config: Pick<Config, 'staging_mib' | 'staging_total_mib'>,
    log: Pick<Logger, 'info'>,
    file = stagingFile,
  ) {
    this.#config = config;
    this.#log = log;
    this.#file = file;
  }

  /** In turn with those of other sessions, at least 8 MiB and at most this session's share. */
  async claim(file: string, transfers: number, wait: StagingWait): Promise<Staging> {
    const { staging_mib: mib, staging_total_mib: total } = this.#config;
    const claim = new (native().StagingClaim)({
      file: this.#file,
      total: Math.floor(total / pieceMib),
      wanted: Math.ceil(mib / pieceMib),
      transfers,
      session: process.pid,
    });
    try {
      const pieces = await this.#pieces(claim, file, wait);
      const granted = Math.min(mib, pieces * pieceMib);
      return { ring: stagingRing({ staging_mib: granted }), giveBack: () => claim.close() };
    } catch (error) {
      claim.close();
      throw error;
    }
  }

  async #pieces(claim: { poll(): number }, file: string, wait: StagingWait): Promise<number> {
    const began = performance.now();
    let reported = false;
    try {
      for (;;) {
        if (wait.cancelled()) {
          throw new KfdError('E_CANCELLED', `${file}: cancelled while it waited for memory`);
        }
        const pieces = claim.poll();
        const waited = Math.round(performance.now() - began);
        if (pieces > 0) {
          const mib = pieces * pieceMib;
          if (reported) this.#log.info({ file, waited_ms: waited, mib }, 'staging memory is there');
          return pieces;
        }
        if (!reported && waited >= quietMs) {
          reported = true;
          wait.waiting(true);
          const total = this.#config.staging_total_mib;
          this.#log.info({ file, staging_total_mib: total }, 'waiting for staging memory');
        }
        await delay(pollMs);
      }
    } finally {
      if (reported) wait.waiting(false);
    }
  }
}
