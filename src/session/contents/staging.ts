/** Sizes of a transfer's staging ring and its number of workers, by the budgets of a GPU and of the host. */

import { availableParallelism } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../../config.js';
import { stagingFile } from '../../criu/state-folder.js';
import { KfdError } from '../../errors.js';
import type { Logger } from '../../log.js';
import { native } from '../../native.js';

/** Content per frame and per slot, bytes (docs/image-format.md allows 1 to 4 MiB). */
export const frameBytes = 2 << 20;

/** More copies in flight gain nothing and cost memory. */
const maxSlots = 32;
/** Workers wait for disks and for cores. More than this wait only for each other. */
const minWorkers = 4;
const maxWorkers = 16;
/** Frames that a worker may keep beside its slot: compressed content, and content of several buffers. */
const framesPerWorker = 2;
/** The unit of the host's staging memory, MiB. It is the least that a transfer works with. */
export const pieceMib = 8;
/** A wait shorter than this is not logged, ms. */
const quietMs = 100;
/** How soon a waiting transfer looks again, ms. */
const soonestMs = 20;
const latestMs = 250;
/** A look may come later than needed by this part of the whole wait. */
const laterBy = 1 / 20;

/** Many sessions that wait for long must not take the processor from the one that works. */
export function nextLookMs(waitedMs: number): number {
  return Math.min(latestMs, Math.max(soonestMs, Math.round(waitedMs * laterBy)));
}

export interface StagingRing {
  readonly slots: number;
  readonly slotBytes: number;
  readonly workers: number;
}

/** `cores`: the cores that this process may use. Workers take half of the budget at most. */
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

/** Staging memory of one transfer, until giveBack(). */
export interface Staging {
  readonly ring: StagingRing;
  giveBack(): void;
}

/** How a waiting transfer reports, and how it is stopped. */
export interface StagingWait {
  waiting(is: boolean): void;
  cancelled(): boolean;
}

/** The source of staging memory for transfers. */
export interface StagingSource {
  /** Memory for one of the `transfers` that this session runs at the same time. Rejects with E_CANCELLED, E_IO. */
  claim(file: string, transfers: number, wait: StagingWait): Promise<Staging>;
}

/** The staging memory of this host, shared by all sessions. */
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

  /** Waits its turn among all sessions. Grants at least 8 MiB and at most this session's share. */
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
        await delay(nextLookMs(waited));
      }
    } finally {
      if (reported) wait.waiting(false);
    }
  }
}
