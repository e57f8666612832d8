/** How long the container would stand still, for an answer of the target: measured before anything stops. */

import { Option } from 'commander';
import { asKfdError, KfdError } from '../errors.js';
import type { Mismatch } from '../gpu/mismatch.js';
import { type Estimate, estimateOf, type Load, lastMove } from '../migrate/estimate.js';
import { placesBelow } from '../migrate/places.js';
import { measureRate } from '../migrate/probe.js';
import type { Moving } from '../migrate/question/compare.js';
import type { Asked, MigrateOptions } from './migrate-question.js';

export const maxDowntimeOption = () =>
  new Option(
    '--max-downtime <seconds>',
    'stop nothing where it would stand still for longer',
  ).argParser((text: string) => {
    if (/^\d{1,6}(\.\d{1,3})?$/.test(text) && Number(text) > 0) return Number(text);
    throw new KfdError('E_USAGE', `--max-downtime ${text}: not a number of seconds`);
  });

/** From so many rounds on it is known before the stop how much changes. */
const knownRounds = 2;

/**
 * Adds the estimate, and the reason or the warning that comes of it. A connection of its own is made for it. Contents
 * that rounds will send ahead are not counted where `assertShort` judges later, right before the stop.
 */
export async function withEstimate(
  asked: Asked,
  host: string,
  { root, maxDowntime, dryRun, precopy = 0 }: MigrateOptions,
  signal: AbortSignal,
): Promise<Asked> {
  const last = await lastMove(placesBelow(root));
  let estimate: Estimate;
  try {
    const load = loadOf(asked.moving);
    const isJudgedLater = dryRun !== true && precopy >= knownRounds;
    const counted = isJudgedLater ? { ...load, contents: 0 } : load;
    estimate = estimateOf(counted, await measureRate(host, signal), last);
  } catch (error) {
    if (signal.aborted) throw error;
    return withMismatch(asked, unknown(asKfdError(error, host)), maxDowntime !== undefined);
  }
  const allowedMs = maxDowntime === undefined ? Number.POSITIVE_INFINITY : maxDowntime * 1000;
  if (estimate.downtimeMs <= allowedMs) return { ...asked, estimate };
  return withMismatch({ ...asked, estimate }, tooLong(estimate, allowedMs), true);
}

/**
 * Judges again right before the stop, by what had changed between the last two rounds. Throws E_TIMEOUT when the
 * container would stand still for longer than is allowed.
 */
export async function assertShort(
  load: Load,
  { root, maxDowntime, rate }: Pick<MigrateOptions, 'root' | 'maxDowntime'> & { rate?: number },
): Promise<void> {
  if (maxDowntime === undefined || rate === undefined) return;
  const estimate = estimateOf(load, rate, await lastMove(placesBelow(root)));
  const allowedMs = maxDowntime * 1000;
  if (estimate.downtimeMs <= allowedMs) return;
  const { code, message, hint } = tooLong(estimate, allowedMs);
  throw new KfdError(code, message, { hint });
}

/** Changes of the root file system are sent as the memory is. */
export function loadOf({ memoryBytes = 0, contentBytes, changedBytes = 0 }: Moving): Load {
  return { memory: memoryBytes + changedBytes, contents: contentBytes };
}

function withMismatch(asked: Asked, one: Mismatch, isReason: boolean): Asked {
  const { reasons, warnings, ...rest } = asked.answer;
  const answer = isReason
    ? { ...rest, warnings, reasons: [...reasons, one] }
    : { ...rest, reasons, warnings: [...warnings, one] };
  return { ...asked, answer };
}

function unknown({ message }: KfdError): Mismatch {
  return {
    code: 'E_HOST',
    message: `downtime: cannot be estimated: ${message}`,
    hint: 'mend the connection, or leave out --max-downtime',
  };
}

const seconds = (ms: number) => (ms / 1000).toFixed(1);

function tooLong({ downtimeMs, sendMs }: Estimate, allowedMs: number): Mismatch {
  const message =
    `downtime: about ${seconds(downtimeMs)} s, of which ${seconds(sendMs)} s for sending, ` +
    `${seconds(allowedMs)} s are allowed`;
  const hint = 'free memory of the container first, use a faster connection, or allow more';
  return { code: 'E_TIMEOUT', message, hint };
}
