/** A folder that others may have written. Its files are opened relative to it, and no link is followed. */

import { constants, promises } from 'node:fs';
import { type ErrorCode, KfdError } from '../errors.js';

/** Linux: opens the file's place only. Nothing happens to a device or FIFO. */
const O_PATH = 0o10000000;

export class Folder {
  readonly #handle: promises.FileHandle;

  private constructor(handle: promises.FileHandle) {
    this.#handle = handle;
  }

  /** `path` may be a link itself. Throws Node's error, ENOTDIR for anything but a folder. */
  static async open(path: string): Promise<Folder> {
    return new Folder(await promises.open(path, constants.O_RDONLY | constants.O_DIRECTORY));
  }

  /** A folder in this one. Throws Node's error, ENOTDIR for anything but a folder. */
  async folder(name: string): Promise<Folder> {
    const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
    return new Folder(await promises.open(this.#path(name), flags));
  }

  /** All names, sorted. */
  async names(): Promise<string[]> {
    return (await promises.readdir(this.#path('.'))).sort();
  }

  /** What a name is, without following a link. Throws Node's error. */
  async kindOf(name: string): Promise<'file' | 'folder' | 'link' | 'special'> {
    const found = await promises.lstat(this.#path(name));
    if (found.isFile()) return 'file';
    if (found.isDirectory()) return 'folder';
    return found.isSymbolicLink() ? 'link' : 'special';
  }

  /** Opens a regular file for reading. Throws an error with `code` for anything else, and Node's error. */
  async file(name: string, code: ErrorCode): Promise<promises.FileHandle> {
    const place = await promises.open(this.#path(name), O_PATH | constants.O_NOFOLLOW);
    try {
      if (!(await place.stat()).isFile()) throw new KfdError(code, `${name}: not a regular file`);
      // The same file, whatever has the name by now.
      return await promises.open(`/proc/self/fd/${place.fd}`, constants.O_RDONLY);
    } finally {
      await place.close();
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  #path(name: string): string {
    return `/proc/self/fd/${this.#handle.fd}/${name}`;
  }
}
