/** Room on the source for what a checkpoint writes: archive and image of podman, and the GPU contents. */

import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isMissing } from '../../errors.js';
import { roomAt } from './target-facts.js';

/** A folder that a checkpoint writes to. */
export interface Destination {
  readonly folder: string;
  /**
   * What it gets: memory of the processes, all images of podman, GPU contents, or of a task of containerd memory and
   * changes, alone or with the GPU contents.
   */
  readonly gets: 'memory' | 'images' | 'contents' | 'task' | 'whole';
}

/** A file system of the source, with the folders on it. */
export interface Room {
  readonly destinations: readonly Destination[];
  readonly freeBytes: number;
}

/** Throws Node's error where a folder cannot be looked at. */
export async function roomHere(destinations: readonly Destination[]): Promise<Room[]> {
  const rooms = new Map<number, Room>();
  for (const one of destinations) {
    const device = await deviceOf(one.folder);
    const { bavail, bsize } = await roomAt(one.folder);
    const known = rooms.get(device)?.destinations ?? [];
    rooms.set(device, { destinations: [...known, one], freeBytes: bavail * bsize });
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
