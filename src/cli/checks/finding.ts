/** The vocabulary of `check`. */

import type { Run } from '../../os/exec.js';
import type { NativeServices } from '../context.js';

/** One line of the preflight. */
export interface Finding {
  /** Short and stable; scripts look for it. */
  readonly name: string;
  readonly status: 'ok' | 'warn' | 'fail';
  readonly message: string;
  /** How to mend it; on every warn and fail. */
  readonly hint?: string;
}

export interface CheckContext {
  /** Where `/etc`, `/sys`, `/proc`, `/dev`, ... are looked for. */
  readonly root: string;
  /** Folder of the installation. */
  readonly prefix: string;
  readonly run: Run;
  readonly native: NativeServices;
  /** `process.versions.node`. */
  readonly nodeVersion: string;
}

export type Check = (context: CheckContext) => Promise<Finding[]>;

export function ok(name: string, message: string): Finding {
  return { name, status: 'ok', message };
}

export function warn(name: string, message: string, hint: string): Finding {
  return { name, status: 'warn', message, hint };
}

export function fail(name: string, message: string, hint: string): Finding {
  return { name, status: 'fail', message, hint };
}
