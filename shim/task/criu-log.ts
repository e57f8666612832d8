/** CRIU's own error message. Container engines only report that CRIU has failed. */

import { copyFile, mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { readBounded } from '../../src/os/files.js';

/** Bytes. A log at CRIU's highest level is far smaller. */
const maxLogBytes = 64 << 20;
/** Longest part of CRIU's error in a message, characters. */
const maxReason = 1000;

/**
 * The first error, because later ones are most often its consequences. An error of our plugin comes
 * before all others, because it has the reason. Undefined when the log has no error.
 */
export function firstError(log: string): string | undefined {
  const errors = log.split('\n').filter((line) => /\bError \(/.test(line));
  const line = errors.find((one) => one.includes('Error (kfd-checkpoint)')) ?? errors[0];
  return line?.slice(line.indexOf('Error (')).slice(0, maxReason);
}

/** The first of `paths` that was written since `sinceMs`. Times of a file system may be whole seconds. */
export async function firstWrittenSince(
  paths: readonly string[],
  sinceMs: number,
): Promise<string | undefined> {
  for (const path of paths) {
    const info = await stat(path).catch(() => undefined);
    if (info?.isFile() && info.mtimeMs >= sinceMs - 1000) return path;
  }
  return undefined;
}

/**
 * Adds CRIU's error and the path of its log to `message`. The log is copied to `logDirectory`, because
 * containerd removes the bundle of a container that did not start. Without a log, returns `message`.
 */
export async function explain(
  message: string,
  operation: 'dump' | 'restore',
  log: string | undefined,
  logDirectory: string,
): Promise<string> {
  if (log === undefined) return message;
  const reason = firstError((await readBounded(log, maxLogBytes)).toString('utf8'));
  const path = await copyLog(log, operation, logDirectory).catch(() => log);
  return `${message}; CRIU: ${reason ?? 'no error in its log'}; CRIU's log: ${path}`;
}

async function copyLog(log: string, operation: string, directory: string): Promise<string> {
  const stamp = new Date().toISOString().replace(/[:.]/g, '-');
  const path = join(directory, `${stamp}-criu-${operation}-${process.pid}.log`);
  await mkdir(directory, { recursive: true, mode: 0o750 });
  await copyFile(log, path);
  return path;
}
