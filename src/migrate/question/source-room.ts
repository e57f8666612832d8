/** Room on the source for what a checkpoint writes: the archive on its way, and the image that podman keeps. */

import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isMissing } from '../../errors.js';
import { roomAt } from './target-facts.js';

/** A file system of the source, with the folders that a checkpoint writes to. */
export interface Room {
  readonly folders: readonly string[];
  readonly freeBytes: number;
}

/** Each folder gets all contents once. Throws Node's error where one cannot be looked at. */
export async function roomHere(folders: readonly string[]): Promise<Room[]> {
  const rooms = new Map<number, Room>();
  for (const folder of folders) {
    const device = await deviceOf(folder);
    const { bavail, bsize } = await roomAt(folder);
    const known = rooms.get(device)?.folders ?? [];
    rooms.set(device, { folders: [...known, folder], freeBytes: bavail * bsize });
  }
  return [...rooms.values()];
}

/** Of the folder, or of the one above it where it would be made. */
async function deviceOf(folder: string): Promise<number> {
  return stat(folder).then(
    ({ dev }) => dev,
    (error: unknown) => {
      if (!isMissing(error) || dirname(folder) === folder) throw error;
      return deviceOf(dirname(folder));
    },
  );
}
