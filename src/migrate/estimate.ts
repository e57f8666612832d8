/** How long a container would stand still: an estimate, before anything stops. */

import { dirname, join } from 'node:path';
import * as v from 'valibot';
import { readTextIfAny, replaceFile } from '../os/files.js';
import type { Places } from './places.js';

const amount = v.pipe(v.number(), v.finite(), v.minValue(0));

/** The last container that this host has moved: bytes of archive and contents, milliseconds of the parts. */
const lastSchema = v.object({
  schema_version: v.literal(2),
  bytes: v.pipe(amount, v.minValue(1)),
  /** With the sending of GPU contents, which goes on meanwhile. */
  checkpoint_ms: amount,
  /** Check and restore: all but the checkpoint and the sending of the archive. */
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
  const text = JSON.stringify({ schema_version: 2, ...move });
  await replaceFile(pathOf(places), `${text}\n`, 0o600);
}

/**
 * Without a move to compare with: checkpoint, and check and restore, each so long and at this rate, bytes per second.
 * On the safe side for a host with a fast disk.
 */
const guess = { ms: 3000, rate: 250e6 } as const;

/** What moves, bytes. */
export interface Load {
  readonly memory: number;
  readonly contents: number;
}

export interface Estimate {
  /** Of the connection, bytes per second. */
  readonly rate: number;
  /** Of archive and contents. */
  readonly sendMs: number;
  readonly downtimeMs: number;
  /** The parts beside the sending are those of the last move from this host. */
  readonly isMeasured: boolean;
}

/**
 * GPU contents are sent during the checkpoint, the archive after it. A larger load than that of the last move takes
 * longer, a smaller one not less.
 */
export function estimateOf(
  { memory, contents }: Load,
  rate: number,
  last: LastMove | undefined,
): Estimate {
  const bytes = memory + contents;
  const guessed = guess.ms + (bytes * 1000) / guess.rate;
  const more = last === undefined ? 1 : Math.max(1, bytes / last.bytes);
  const checkpoint = last === undefined ? guessed : last.checkpoint_ms * more;
  const others = last === undefined ? guessed : last.others_ms * more;
  const msOf = (load: number) => (load / rate) * 1000;
  return {
    rate,
    sendMs: Math.round(msOf(bytes)),
    downtimeMs: Math.round(Math.max(checkpoint, msOf(contents)) + msOf(memory) + others),
    isMeasured: last !== undefined,
  };
}
