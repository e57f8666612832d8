/** The clock of a lease, and of everything that is waited for. */

import { join } from 'node:path';
import { KfdError } from '../errors.js';
import { readTextIfAny } from '../os/files.js';
import type { Moment } from './protocol/lease.js';

/**
 * This moment by CLOCK_BOOTTIME, in steps of 10 ms: uptime_proc_show() of fs/proc/uptime.c calls
 * ktime_get_boottime_ts64(). `root`: folder of `/proc`. Throws E_HOST where the kernel does not tell.
 */
export async function momentNow(root = '/'): Promise<Moment> {
  const uptime = await readTextIfAny(join(root, 'proc/uptime'));
  const bootId = await readTextIfAny(join(root, 'proc/sys/kernel/random/boot_id'));
  const seconds = /^(\d{1,10}\.\d\d) /.exec(uptime ?? '')?.[1];
  if (seconds === undefined || bootId === undefined) {
    throw new KfdError('E_HOST', '/proc: does not tell how long the host has been running', {
      hint: 'mount procfs at /proc',
    });
  }
  return { bootId: bootId.trim(), ms: Math.round(Number(seconds) * 1000) };
}

/** Whether nothing has happened for too long, by the host's clock. */
export class Patience {
  readonly #limitMs: number;
  readonly #now: () => Promise<Moment>;
  #since: { readonly sign: unknown; readonly at: Moment } | undefined;

  constructor(limitMs: number, now: () => Promise<Moment>) {
    this.#limitMs = limitMs;
    this.#now = now;
  }

  /** `sign`: another value than before means that something has happened. */
  async isOver(sign: unknown = undefined): Promise<boolean> {
    const at = await this.#now();
    if (this.#since === undefined || this.#since.sign !== sign) this.#since = { sign, at };
    return at.ms - this.#since.at.ms > this.#limitMs;
  }
}
