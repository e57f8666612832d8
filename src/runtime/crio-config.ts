/** What CRI-O's configuration says of checkpoints and of hooks. It is only read. */

import { parse } from 'smol-toml';
import * as v from 'valibot';
import { KfdError } from '../errors.js';
import { hookFolder } from './hook-file.js';

export const crioFolder = '/etc/crio';
export const crioConfigPath = `${crioFolder}/crio.conf`;
/** Its files come after `crioConfigPath`, by name. */
export const crioDropInFolder = `${crioFolder}/crio.conf.d`;

/** The members that decide. The older one of checkpoints is `crio.runtime.enable_criu_support`. */
const members = v.object({
  crio: v.optional(
    v.object({
      runtime: v.optional(
        v.object({
          enable_criu_support: v.optional(v.boolean()),
          hooks_dir: v.optional(v.array(v.string())),
        }),
      ),
      checkpoint_restore: v.optional(v.object({ container_level_enabled: v.optional(v.string()) })),
    }),
  ),
});

/** A member that is undefined is not in the file. */
export interface CrioSettings {
  readonly checkpoints: boolean | undefined;
  /** Where CRI-O looks for hooks. */
  readonly hookFolders: readonly string[] | undefined;
}

/** What one file says. Throws E_CONFIG. */
export function crioSettings(path: string, text: string): CrioSettings {
  try {
    const { crio } = v.parse(members, parse(text, { integersAsBigInt: 'asNeeded' }));
    const level = crio?.checkpoint_restore?.container_level_enabled;
    return {
      checkpoints: level === undefined ? crio?.runtime?.enable_criu_support : level !== 'none',
      hookFolders: crio?.runtime?.hooks_dir,
    };
  } catch (error) {
    const [reason] = (error as Error).message.split('\n');
    throw new KfdError('E_CONFIG', `${path}: ${reason}`, {
      cause: error,
      hint: 'correct the file, run "systemctl restart crio"',
    });
  }
}

/**
 * Whether CRI-O reads podman's hook. It knows no stage "precreate" and does not start with such a file
 * (internal/lib/container_server.go:New, go.podman.io/common/pkg/hooks/1.0.0/hook.go:Validate, August 2026). Without
 * a setting it reads the folder that podman reads (pkg/config/config.go:DefaultConfig).
 */
export function readsPodmansHooks({ hookFolders }: CrioSettings): boolean {
  if (hookFolders === undefined) return true;
  return hookFolders.some((folder) => folder.replace(/(?<=.)\/+$/, '') === hookFolder);
}
