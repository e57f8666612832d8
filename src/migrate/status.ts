/** What a side of a migration tells of itself to other programs of its host. */

import * as v from 'valibot';
import { type ErrorCode, exitCodes, type KfdError } from '../errors.js';

const amount = v.pipe(v.number(), v.finite(), v.minValue(0));
const text = (max: number) => v.pipe(v.string(), v.maxLength(max));
const codes = ['', ...Object.keys(exitCodes)] as ['', ...ErrorCode[]];

export const statusSchema = v.object({
  migration: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/)),
  side: v.picklist(['source', 'target']),
  container: text(255),
  container_id: text(64),
  /** The other host, as it was named. The target does not know it. */
  host: v.exactOptional(text(255)),
  /** Of the process that plays this side. */
  pid: amount,
  /** Those of src/migrate/protocol, and what comes before them on the source. */
  phase: text(64),
  /** Since this process has begun. */
  elapsed_us: amount,
  /** Of the archive on its way. 0 in all: it is not known yet. */
  bytes_done: amount,
  bytes_total: amount,
  bytes_per_s: amount,
  cancelled: v.boolean(),
  /** null until this process has come to the end. */
  result: v.nullable(
    v.object({ success: v.boolean(), code: v.picklist(codes), message: text(8192) }),
  ),
});

export type MigrationStatus = v.InferOutput<typeof statusSchema>;
export type MigrationResult = NonNullable<MigrationStatus['result']>;

export function resultOf(failure: KfdError | undefined): MigrationResult {
  if (failure === undefined) return { success: true, code: '', message: '' };
  return { success: false, code: failure.code, message: failure.message.slice(0, 8192) };
}

/** Bytes on their way, and how fast they go. Moments are milliseconds of performance.now(). */
export class Meter {
  #first: { readonly at: number; readonly done: number } | undefined;
  #last = { at: 0, done: 0, total: 0 };

  update(done: number, total: number, at = performance.now()): void {
    // What has arrived is removed at the end.
    if (done < this.#last.done) return;
    this.#first ??= { at, done };
    if (done !== this.#last.done || total !== this.#last.total) this.#last = { at, done, total };
  }

  get done(): number {
    return this.#last.done;
  }

  get total(): number {
    return this.#last.total;
  }

  /** Bytes per second, on average. 0 until some have gone. */
  get rate(): number {
    if (this.#first === undefined) return 0;
    const ms = this.#last.at - this.#first.at;
    return ms <= 0 ? 0 : Math.round(((this.#last.done - this.#first.done) / ms) * 1000);
  }
}

/** Microseconds until the rest has gone at this rate. undefined: nothing goes. */
export function leftUs({
  bytes_done: done,
  bytes_total: total,
  bytes_per_s: rate,
}: Pick<MigrationStatus, 'bytes_done' | 'bytes_total' | 'bytes_per_s'>): number | undefined {
  return rate === 0 || total <= done ? undefined : Math.round(((total - done) / rate) * 1e6);
}
