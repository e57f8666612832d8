/** Archives that have their contents in each other, with stand-ins for pages files. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { findChain } from '../../src/archive/flatten.js';
import { encodeManifest } from '../../src/manifest/codec.js';
import type { Manifest } from '../../src/manifest/schema.js';
import {
  entriesOf,
  type Files,
  fakeVerifier,
  gpuCheckpoint,
  tarOf,
  zstdProgram,
} from './archive-builder.js';
import { temporaryFolder } from './paths.js';

export const options = { zstdDecoder: zstdProgram, verifier: fakeVerifier };
export const names = ['amdgpu-pages-0-0000.img', 'amdgpu-pages-0-0001.img'] as const;
/** Of every pages file of the sample. */
export const root = '0123456789abcdef0123456789abcdef';

/** The files of a checkpoint; `archive`: of its parent, in which its first pages file has contents. */
export function files(
  archive?: string,
  bend: (manifest: Manifest) => void = () => undefined,
): Files {
  const { files: all, manifest } = gpuCheckpoint();
  if (archive !== undefined) {
    manifest.features = { required: ['parent', 'other'], optional: ['x'] };
    manifest.parent = { archive, files: [{ name: names[0], root }] };
  }
  bend(manifest);
  return { ...all, 'checkpoint/kfd-manifest.json': encodeManifest(manifest) };
}

/** Writes archives by name into a folder that has another one for what is unpacked. */
export async function written(t: TestContext, archives: Record<string, Files>) {
  const folder = await temporaryFolder(t);
  const work = join(folder, 'work');
  await mkdir(work);
  for (const [name, one] of Object.entries(archives)) {
    const tar = await tarOf(entriesOf(one));
    await writeFile(join(folder, name), name.endsWith('.gz') ? gzipSync(tar) : tar);
  }
  const at = (name: string) => join(folder, name);
  const find = (name: string, ...parents: string[]) =>
    findChain(at(name), parents.map(at), options, work);
  return { at, work, find };
}
