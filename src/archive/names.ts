/** Names inside a checkpoint archive. Podman, CRI-O and containerd's CRI use the same layout. */

import { posix } from 'node:path';
import { imageFilePattern, manifestName } from '../manifest/names.js';

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

/** podman's image directory of a pre-checkpoint. It has host memory only. */
export const previousPrefix = 'pre-checkpoint/';

/** CRIU's link to the images of a pre-dump. A restore follows it for host memory, never for GPU state. */
export const parentLink = `${imagePrefix}parent`;

/** Whether a plain name is one that only a regular file of a checkpoint may have, or the image directory's. */
export function isOfCheckpoint(plain: string): boolean {
  if (plain === parentLink) return false;
  return `${plain}/`.startsWith(imagePrefix) || isOurFile(plain);
}

/** Whether this project reads or writes the file with this plain name. */
export function isOurFile(plain: string): boolean {
  const { config, spec, inventory } = smallFiles;
  if (plain === config || plain === spec || plain === inventory) return true;
  if (!plain.startsWith(imagePrefix)) return false;
  const name = plain.slice(imagePrefix.length);
  return name === manifestName || imageFilePattern.test(name);
}
