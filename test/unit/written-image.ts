/** Forged images in a folder, and what the pre-flight of a restore says of them. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { HostOptions } from '../../src/gpu/host.js';
import { type Preflight, preflight } from '../../src/session/restore/preflight.js';
import { kfdVersion } from './dumped.js';
import { imageFiles, type Parts, soundParts } from './forged-image.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

/** Writes an image. Returns its folder, and the host that it was taken on. */
export async function written(t: TestContext, parts: Parts): Promise<[string, HostOptions]> {
  const directory = join(await temporaryFolder(t), 'image');
  await mkdir(directory);
  for (const [name, bytes] of Object.entries(imageFiles(parts))) {
    await writeFile(join(directory, name), bytes);
  }
  return [directory, { root: await bentHost(t, 'two-gpus', {}), kfdVersion }];
}

export async function ready(t: TestContext, parts: Parts): Promise<Preflight | undefined> {
  const [directory, host] = await written(t, parts);
  return preflight(directory, {}, host);
}

/** The code and message with which the image is refused. */
export async function refusal(t: TestContext, bend: (parts: Parts) => void): Promise<string> {
  const parts = soundParts();
  bend(parts);
  const error = await ready(t, parts).then(
    () => ({ code: 'accepted', message: '' }),
    (reason: { code: string; message: string }) => reason,
  );
  return `${error.code} ${error.message}`;
}
