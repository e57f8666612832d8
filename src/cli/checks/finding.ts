/** Types of the checks. */

import type { Run } from '../../os/exec.js';
import type { NativeServices } from '../context.js';
import type { Mend } from './mend.js';

/** One line in the output of `check`. */
export interface Finding {
  /** Short and stable, because scripts search for it. */
  readonly name: string;
  readonly status: 'ok' | 'warn' | 'fail';
  readonly message: string;
  /** How to solve the problem. Every warn and fail has one, and that of a fail quotes a command where one helps. */
  readonly hint?: string;
  /** Rows of docs/kernels.md that hold for a GPU, by their ids. */
  readonly rows?: readonly string[];
}

/** The container engines that were set up. */
export interface Engines {
  readonly podman: boolean;
  readonly containerd: boolean;
}

export interface CheckContext {
  /** The folder that has `/etc`, `/sys`, `/proc`, `/dev` and so on. */
  readonly root: string;
  /** Folder of the installation. */
  readonly prefix: string;
  readonly run: Run;
  readonly native: NativeServices;
  /** `process.versions.node`. */
  readonly nodeVersion: string;
  readonly engines: Engines;
  readonly mend: Mend;
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
