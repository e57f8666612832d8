/** CRIU's own word on why it failed. Engines tell of it no more than that it did. */

import { copyFile, mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { readBounded } from '../../src/os/files.js';

/** A log of CRIU at its most talkative is far smaller, bytes. */
const maxLogBytes = 64 << 20;
/** Longest account that goes into a message, characters. */
const maxReason = 1000;

/**
 * The error that came first, for what follows it is most often its consequence; ours before all others, for it tells
 * reasons. Undefined when the log has none.
 */
export function firstError(log: string): string | undefined {
  const errors = log.split('\n').filter((line) => /\bError \(/.test(line));
  const line = errors.find((one) => one.includes('Error (kfd-checkpoint)')) ?? errors[0];
  return line?.slice(line.indexOf('Error (')).slice(0, maxReason);
}

/** The first of `places` that was written since `sinceMs`. A file system may count in whole seconds. */
export async function newest(
  places: readonly string[],
  sinceMs: number,
): Promise<string | undefined> {
  for (const place of places) {
    const info = await stat(place).catch(() => undefined);
    if (info?.isFile() && info.mtimeMs >= sinceMs - 1000) return place;
  }
  return undefined;
}

/**
 * Adds to `message` CRIU's reason and where its log is. The log is copied to `logDirectory`: containerd removes the bundle of
 * what did not start. The message alone when there is no log.
 */
export async function explain(
  message: string,
  operation: 'dump' | 'restore',
  log: string | undefined,
  logDirectory: string,
): Promise<string> {
  if (log === undefined) return message;
  const reason = firstError((await readBounded(log, maxLogBytes)).toString('utf8'));
  const place = await keep(log, operation, logDirectory).catch(() => log);
  return `${message}; CRIU: ${reason ?? 'no error in its log'}; CRIU's log: ${place}`;
}

async function keep(log: string, operation: string, directory: string): Promise<string> {
  const stamp = new Date().toISOString().replace(/[:.]/g, '-');
  const path = join(directory, `${stamp}-criu-${operation}-${process.pid}.log`);
  await mkdir(directory, { recursive: true, mode: 0o750 });
  await copyFile(log, path);
  return path;
}
