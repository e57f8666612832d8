/** How long a container would stand still: an estimate, before anything stops. */

import { dirname, join } from 'node:path';
import * as v from 'valibot';
import { readTextIfAny, replaceFile } from '../os/files.js';
import type { Places } from './places.js';

const amount = v.pipe(v.number(), v.finite(), v.minValue(0));

/** The last container that this host has moved: bytes of its archive, milliseconds of the parts. */
const lastSchema = v.object({
  schema_version: v.literal(1),
  bytes: v.pipe(amount, v.minValue(1)),
  /** Checkpoint, check and restore: all but the sending. */
  others_ms: amount,
});

export type LastMove = v.InferOutput<typeof lastSchema>;

const pathOf = ({ journal }: Places) => join(dirname(journal), 'last-migration.json');

/** undefined: there was none yet, or the file is damaged. */
export async function lastMove(places: Places): Promise<LastMove | undefined> {
  try {
    const text = await readTextIfAny(pathOf(places));
    return text === undefined ? undefined : v.parse(lastSchema, JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Throws Node's error. */
export async function writeLastMove(move: Omit<LastMove, 'schema_version'>, places: Places) {
  const text = JSON.stringify({ schema_version: 1, ...move });
  await replaceFile(pathOf(places), `${text}\n`, 0o600);
}

/**
 * Without a move to compare with: starts of all programs, and a checkpoint and a restore at this rate, bytes per
 * second. On the safe side for a host with a fast disk.
 */
const guess = { ms: 6000, rate: 250e6 } as const;

export interface Estimate {
  /** Of the connection, bytes per second. */
  readonly rate: number;
  readonly sendMs: number;
  readonly downtimeMs: number;
  /** The parts beside the sending are those of the last move from this host. */
  readonly isMeasured: boolean;
}

/** `bytes`: of memory and contents. Larger contents than those of the last move take longer, smaller ones not less. */
export function estimateOf(bytes: number, rate: number, last: LastMove | undefined): Estimate {
  const sendMs = Math.round((bytes / rate) * 1000);
  const others =
    last === undefined
      ? guess.ms + (2 * bytes * 1000) / guess.rate
      : last.others_ms * Math.max(1, bytes / last.bytes);
  return {
    rate,
    sendMs,
    downtimeMs: Math.round(sendMs + others),
    isMeasured: last !== undefined,
  };
}
