/** Small files: reading with a bound, replacing atomically. */

// Not from node:fs/promises: the shim's long-lived process loads this module, and rarely needs the other.
import { constants, promises } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { type ErrorCode, isMissing, KfdError } from '../errors.js';

/**
 * Opens a regular file (or sysfs/proc attribute) for reading. Never blocks on a FIFO. Throws an error with `code` when
 * it is not regular, and Node's own error (ENOENT...) otherwise.
 */
export async function regularFile(
  path: string,
  code: ErrorCode = 'E_IO',
): Promise<promises.FileHandle> {
  const handle = await promises.open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if ((await handle.stat()).isFile()) return handle;
    throw new KfdError(code, `${path}: not a regular file`);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * The bytes of a regular file of at most `maxBytes`. Throws the errors of `regularFile`, and one with `code` when the
 * file is larger.
 */
export async function readBounded(
  path: string,
  maxBytes: number,
  code: ErrorCode = 'E_IO',
): Promise<Buffer> {
  const handle = await regularFile(path, code);
  try {
    // sysfs and proc report a size of 0 or a page, so the end is found by reading.
    const chunks: Buffer[] = [];
    let total = 0;
    for (;;) {
      const room = Math.min(maxBytes + 1 - total, 1 << 20);
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(room), 0, room);
      if (bytesRead === 0) return Buffer.concat(chunks, total);
      total += bytesRead;
      if (total > maxBytes) throw new KfdError(code, `${path}: larger than ${maxBytes} bytes`);
      chunks.push(buffer.subarray(0, bytesRead));
    }
  } finally {
    await handle.close();
  }
}

/** The file as text, with the errors of `readBounded`; `undefined` when it does not exist. */
export async function readTextIfAny(path: string, maxBytes = 1 << 20): Promise<string | undefined> {
  try {
    return (await readBounded(path, maxBytes)).toString('utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/**
 * What one read from the start of the file gives, at most `maxBytes`; `undefined` when it does not exist. Files of
 * /proc that list entries give whole entries, and make no more of them than fit. Throws Node's error.
 */
export async function readHeadIfAny(path: string, maxBytes: number): Promise<string | undefined> {
  try {
    const handle = await promises.open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(maxBytes), 0, maxBytes, 0);
      return buffer.toString('utf8', 0, bytesRead);
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/**
 * Replaces `path` by `data`: written beside it under a temporary name, synced, renamed, and the
 * folder synced. Missing folders are made. On failure the old file is untouched and no temporary
 * file remains. Throws Node's error.
 */
export async function replaceFile(
  path: string,
  data: string | Buffer,
  mode = 0o644,
): Promise<void> {
  const folder = dirname(path);
  await promises.mkdir(folder, { recursive: true });
  const temporary = join(folder, `.${basename(path)}.${process.pid}.tmp`);
  // O_EXCL: in a folder others may write to, a planted link must not be followed.
  await promises.unlink(temporary).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
  const handle = await promises.open(temporary, 'wx', mode);
  try {
    await handle.writeFile(data);
    // The mode given to open() is subject to the umask of whoever started us.
    await handle.chmod(mode);
    await handle.sync();
    await handle.close();
    await promises.rename(temporary, path);
  } catch (error) {
    await handle.close().catch(() => undefined);
    await promises.unlink(temporary).catch(() => undefined);
    throw error;
  }
  await syncFolder(folder);
}

/** Makes renames and removals in a folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await promises.open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
