/** The folders into which containerd unpacks a checkpoint for a restore. It never removes them. */

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
