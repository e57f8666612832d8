/** Archives on the way from one host to the other, and what may happen to them there. */

import {
  closeSync,
  mkdirSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { run } from './command.js';
import type { Engine } from './container.js';

const folder = '/tmp/archives';

/** Where `engine`'s archives lie; forgetArchives() takes them away. */
export function archivePath(engine: Engine, name: string): string {
  const path = join(folder, engine, name);
  mkdirSync(dirname(path), { recursive: true });
  return path;
}

/** Unpacks an uncompressed archive, lets `change` work on its image directory, packs it again. */
export async function rewriteArchive(
  archive: string,
  change: (imageDirectory: string) => void,
): Promise<void> {
  const work = `${archive}.d`;
  mkdirSync(work);
  await run('tar', '-C', work, '-xf', archive);
  change(join(work, 'checkpoint'));
  await run('tar', '-C', work, '-cf', archive, '.');
  rmSync(work, { recursive: true });
}

export function forgetArchives(engine: Engine): void {
  rmSync(join(folder, engine), { recursive: true, force: true });
}

/** Changes every bit of one byte. */
export function flipByte(path: string, offset: number): void {
  const fd = openSync(path, 'r+');
  const byte = Buffer.alloc(1);
  readSync(fd, byte, 0, 1, offset);
  writeSync(fd, Buffer.from([~(byte[0] ?? 0) & 0xff]), 0, 1, offset);
  closeSync(fd);
}

export function truncateBy(path: string, bytes: number): void {
  truncateSync(path, statSync(path).size - bytes);
}
