/** Room on the source for what a checkpoint writes: archive and image of podman, and the GPU contents. */

import { deviceOf, roomAt } from './target-facts.js';

/** A folder that a checkpoint writes to. */
export interface Destination {
  readonly folder: string;
  /**
   * What it gets: an archive with memory of the processes and changes of the root file system, what podman keeps of
   * both, GPU contents, or all of that.
   */
  readonly gets: 'archive' | 'images' | 'contents' | 'whole';
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
