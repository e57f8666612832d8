/** The socket at which containerd finds us: one for each stock shim, so that what shares that one shares us, too. */

import { existsSync, linkSync, unlinkSync } from 'node:fs';
import { connect, type Server } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { isMissing } from '../../src/errors.js';

/** Names of stock shims' sockets are digests, 64 characters; of shorter ones nothing can be spared. */
const spareLength = 32;

/**
 * Beside the stock shim's, in a folder that is its daemon's choice, and no longer: the folder may be at the limit of a socket's
 * path. Made of the name alone: loading what makes digests takes longer than loading all the rest.
 */
export function ownSocket(child: string): string {
  const name = basename(child);
  const own = `kfd-${name}`;
  return join(dirname(child), name.length < spareLength ? own : own.slice(0, name.length));
}

/** Whether somebody listens at the socket `path`. */
export async function isServed(path: string): Promise<boolean> {
  if (!existsSync(path)) return false; // most often; a connection's first failure loads more than a look takes
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.on('error', () => resolve(false));
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/**
 * Has `server` listen at `path`. False when another process does so already; of several that start at the same time one
 * gets the path, for a socket comes to its name with the first connection accepted. Rejects with Node's error.
 */
export async function listenAt(server: Server, path: string): Promise<boolean> {
  // The daemon's folder may be at the limit of a socket's path, 107 bytes: the other name must be no longer.
  const draft = join(dirname(path), `.kfd-${process.pid}`);
  forget(draft); // of a process that had this pid
  const umask = process.umask(0o177);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(draft, resolve);
    });
  } finally {
    process.umask(umask);
  }
  try {
    return await claim(draft, path);
  } finally {
    forget(draft);
  }
}

async function claim(draft: string, path: string): Promise<boolean> {
  for (;;) {
    try {
      linkSync(draft, path);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    if (await isServed(path)) return false;
    forget(path); // its process was killed
  }
}

/** Removes a file that may be gone. */
export function forget(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}
