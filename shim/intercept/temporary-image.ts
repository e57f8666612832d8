/** Folders that containerd makes for checkpoints, and for restores. It never removes the latter. */

import { statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';

/**
 * Where containerd makes them (`plugins/services/tasks/local.go:Create@2.1`). The shim has the
 * environment of the daemon that started it.
 */
export function temporaryFolder(env: NodeJS.ProcessEnv = process.env): string {
  return env['XDG_RUNTIME_DIR'] || env['TMPDIR'] || '/tmp';
}

/**
 * Whether containerd has made this folder with Go's MkdirTemp, which appends a number to the name. Any
 * other folder belongs to the caller, whatever its name begins with.
 */
export function isTemporaryImage(image: string, folder: string): boolean {
  return (
    dirname(resolve(image)) === resolve(folder) && /^ctrd-checkpoint\d+$/.test(basename(image))
  );
}

/**
 * The image directory of a checkpoint. containerd removes one of its own when its caller goes, and tells the shim
 * nothing. runc then makes it again.
 */
export class ImageDirectory {
  readonly #image: string;
  /** Undefined: the directory is the caller's, or not there. */
  readonly #inode: bigint | undefined;
  /** Whether containerd has made it. */
  readonly isTemporary: boolean;

  constructor(image: string, temporaryFolder: string) {
    this.#image = image;
    this.isTemporary = isTemporaryImage(image, temporaryFolder);
    this.#inode = this.isTemporary ? inodeOf(image) : undefined;
  }

  get isGivenUp(): boolean {
    return this.isTemporary && (this.#inode === undefined || inodeOf(this.#image) !== this.#inode);
  }
}

function inodeOf(path: string): bigint | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino;
}
