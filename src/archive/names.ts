/** Names inside a checkpoint archive. Podman, CRI-O and containerd's CRI use the same layout. */

import { posix } from 'node:path';

/** The image directory inside an archive or bundle. */
export const imagePrefix = 'checkpoint/';

export const smallFiles = {
  config: 'config.dump',
  spec: 'spec.dump',
  inventory: `${imagePrefix}inventory.img`,
} as const;

export const rootfsDiff = 'rootfs-diff.tar';

/**
 * The plain form of an entry's name, without "./" and doubled slashes. `undefined` for a name that is absolute, leaves
 * the archive, or is not text: such an entry is never trusted.
 */
export function plainName(name: string): string | undefined {
  if (name.length === 0 || name.length > 1024 || name.includes('\0')) return undefined;
  if (name.startsWith('/') || name.split('/').includes('..')) return undefined;
  const plain = posix.normalize(name).replace(/\/$/, '');
  return plain === '.' ? '' : plain;
}
