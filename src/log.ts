/**
 * Logging: pino, JSON lines, synchronous, so that no line is lost when the process dies. A line that cannot be written
 * is dropped: a session must be able to undo its work on a full disk.
 */

import { mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { pino } from 'pino';
import { describeError, KfdError } from './errors.js';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';
export type Logger = pino.Logger;

export interface LogOptions {
  readonly level?: LogLevel;
  /** File to append to, with missing folders made; stderr when absent. */
  readonly file?: string;
  /** Fields on every line, e.g. `{ session: 'ab12' }`. */
  readonly base?: Readonly<Record<string, unknown>>;
}

/**
 * Makes the root logger of a process. Other modules take a `Logger` and use `child()`. Errors under the key `err` are
 * written with code, hint, details and causes. Throws E_IO when the file cannot be opened.
 */
export function createLogger(options: LogOptions = {}): Logger {
  const settings: pino.LoggerOptions = {
    level: options.level ?? 'info',
    base: { ...options.base },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { err: describeError },
  };
  return pino(settings, linesTo(options.file === undefined ? 2 : openLog(options.file)));
}

function openLog(file: string): number {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o750 });
    return openSync(file, 'a', 0o640);
  } catch (error) {
    throw new KfdError('E_IO', `${file}: the log cannot be opened`, { cause: error });
  }
}

/** Writes lines to a descriptor. Never throws. A count of lost lines is written before the next line. */
function linesTo(fd: number): pino.DestinationStream {
  let lost = 0;
  return {
    write(line) {
      try {
        if (lost > 0)
          writeSync(fd, `\n{"level":"warn","lost_lines":${lost},"msg":"lines are missing"}\n`);
        lost = 0;
        writeSync(fd, line);
      } catch {
        lost++;
      }
    },
  };
}
