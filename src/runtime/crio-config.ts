/** What CRI-O's configuration says of checkpoints. It is only read. */

import { parse } from 'smol-toml';
import * as v from 'valibot';
import { KfdError } from '../errors.js';

export const crioFolder = '/etc/crio';
export const crioConfigPath = `${crioFolder}/crio.conf`;
/** Its files come after `crioConfigPath`, by name. */
export const crioDropInFolder = `${crioFolder}/crio.conf.d`;

/** The members that decide. The older one is `crio.runtime.enable_criu_support`. */
const settings = v.object({
  crio: v.optional(
    v.object({
      runtime: v.optional(v.object({ enable_criu_support: v.optional(v.boolean()) })),
      checkpoint_restore: v.optional(v.object({ container_level_enabled: v.optional(v.string()) })),
    }),
  ),
});

/** Whether a file switches checkpoints on or off; undefined: it says neither. Throws E_CONFIG. */
export function crioCheckpoints(path: string, text: string): boolean | undefined {
  try {
    const { crio } = v.parse(settings, parse(text, { integersAsBigInt: 'asNeeded' }));
    const level = crio?.checkpoint_restore?.container_level_enabled;
    return level === undefined ? crio?.runtime?.enable_criu_support : level !== 'none';
  } catch (error) {
    const [reason] = (error as Error).message.split('\n');
    throw new KfdError('E_CONFIG', `${path}: ${reason}`, {
      cause: error,
      hint: 'correct the file, run "systemctl restart crio"',
    });
  }
}
