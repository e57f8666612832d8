/**
 * The build of the amdgpu driver. A driver from DKMS changes layouts and behaviour under one kernel release, so the
 * release does not identify it.
 */

import { join } from 'node:path';
import type { Manifest } from '../manifest/schema.js';
import { readTextIfAny } from '../os/files.js';
import type { Mismatch } from './mismatch.js';

/**
 * The module as the kernel describes it. `version`: only modules that set one, so AMD's from DKMS and not the kernel's
 * own. `srcversion`: a digest of the sources, of modules with a version, and of all with CONFIG_MODULE_SRCVERSION_ALL.
 */
export type Driver = NonNullable<Manifest['host']['driver']>;

const attributes = ['version', 'srcversion'] as const;

/** Reads `/sys/module/amdgpu` below `root`. A driver that is built into the kernel has no entry there. */
export async function readDriver(root: string): Promise<Driver> {
  const driver: Driver = {};
  for (const name of attributes) {
    const text = (await readTextIfAny(join(root, 'sys/module/amdgpu', name)))?.trim().slice(0, 255);
    if (text !== undefined && text !== '') driver[name] = text;
  }
  return driver;
}

/**
 * Differences of two builds under one kernel release. An attribute on one side only is a difference: the kernel
 * shows it for one build and not for the other. undefined: nothing is known of that side, so nothing is compared.
 */
export function driverMismatches(
  recorded: Driver | undefined,
  present: Driver | undefined,
): Mismatch[] {
  if (recorded === undefined || present === undefined) return [];
  return attributes
    .filter((name) => recorded[name] !== present[name])
    .map((name) => ({
      code: 'E_KERNEL_MISMATCH',
      message:
        `amdgpu ${name}: recorded as ${recorded[name] ?? 'none'}, is ${present[name] ?? 'none'} here; ` +
        'the opaque KFD state is bound to it',
      hint: 'install the amdgpu driver of the source host from the same package, or decide with ignore_mismatch',
      difference: 'driver',
    }));
}
