/** The socket for containerd: one for each stock shim, so containers that share a stock shim share a proxy. */

import { existsSync, linkSync, unlinkSync } from 'node:fs';
import { connect, type Server } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { isMissing } from '../../src/errors.js';

/** The names of stock shims' sockets are digests of 64 characters. A name shorter than this one is not cut. */
const spareLength = 32;

/**
 * A path beside the stock shim's socket, in the folder that its daemon has chosen. The path is not
 * longer, because the folder may be near the limit of a socket's path. It is made of the name alone,
 * because node:crypto takes longer to load than all other modules.
 */
export function ownSocket(stockSocket: string): string {
  const name = basename(stockSocket);
  const own = `kfd-${name}`;
  return join(dirname(stockSocket), name.length < spareLength ? own : own.slice(0, name.length));
}

/** Whether a process listens at the socket `path`. */
export async function isServed(path: string): Promise<boolean> {
  if (!existsSync(path)) return false; // most often; a failing connection would load more modules
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
 * Makes `server` listen at `path`. False when another process already does. Of several processes that
 * start at the same time one gets the path, because the socket accepts connections before it gets
 * this name. Rejects with Node's error.
 */
export async function listenAt(server: Server, path: string): Promise<boolean> {
  // The folder may be near the limit of a socket's path, 107 bytes, so this name is short.
  const draft = join(dirname(path), `.kfd-${process.pid}`);
  removeIfPresent(draft); // from an earlier process with this pid
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
    removeIfPresent(draft);
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
    removeIfPresent(path); // its process was killed
  }
}

/** Removes a file that may not exist. */
export function removeIfPresent(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}
