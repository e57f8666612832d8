/** GPU checkpoints whose pages files are real: drained with the CPU as engine. */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { NativeServices } from '../../src/cli/context.js';
import { nativeServices } from '../../src/cli/native-services.js';
import { decodeManifest, encodeManifest } from '../../src/manifest/codec.js';
import { type ContentsSender, native, type PagesSummary } from '../../src/native.js';
import type { ParentIndexes } from '../../src/session/contents/parent.js';
import { type Files, fakeVerifier, gpuCheckpoint } from './archive-builder.js';
import { fakeNative } from './cli-context.js';
import { temporaryFolder } from './paths.js';
import { received } from './received.js';

/** Bytes of content in each. */
export const frame = 1 << 20;
export const names = ['amdgpu-pages-0-0000.img', 'amdgpu-pages-0-0001.img'] as const;

/** Contents as the sample manifest has them: two buffers on one GPU, one on the other. */
export type Contents = readonly [Buffer, Buffer, Buffer];

/** Bytes that do not compress and differ everywhere. */
export function noise(bytes: number, seed: number): Buffer {
  const out = Buffer.alloc(bytes);
  let state = seed;
  for (let i = 0; i + 4 <= bytes; i += 4) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    out.writeUInt32LE(state, i);
  }
  return out;
}

/** Contents, and what has become of them: one frame of four is another one. */
export const first: Contents = [noise(2 * frame, 1), noise(4096, 2), noise(frame, 3)];
export const second: Contents = [
  Buffer.concat([first[0].subarray(0, frame), noise(frame, 4)]),
  first[1],
  first[2],
];

/** The addon for pages files, and stand-ins for the rest. */
export const services: NativeServices = {
  ...fakeNative,
  verifier: () => {
    const { pagesCheck, siblingCheck } = nativeServices.verifier();
    return { ...fakeVerifier, pagesCheck, siblingCheck };
  },
  imageFlattener: nativeServices.imageFlattener,
  storeMaker: nativeServices.storeMaker,
  listPages: nativeServices.listPages,
};
export const walk = { zstdDecoder: fakeNative.zstdDecoder };

async function drain(
  t: TestContext,
  contents: Contents,
  parent: ParentIndexes | undefined,
  stream: ContentsSender | undefined,
): Promise<{ file: Buffer; summary: PagesSummary }[]> {
  const folder = await temporaryFolder(t);
  const frames = new (native().ImageFrames)();
  const drained: { file: Buffer; summary: PagesSummary }[] = [];
  // One after the other, so that it is the second that refers to the first.
  for (const [gpu, ids] of [[0, 1], [2]].entries()) {
    const sources = ids.map((id) => join(folder, `bo-${id}`));
    await Promise.all(ids.map((id, i) => writeFile(sources[i] ?? '', contents[id] ?? '')));
    const dmabufs = await received(t, sources);
    const path = join(folder, names[gpu] ?? '');
    const job = new (native().TransferJob)({
      operation: 'drain',
      path,
      renderNode: '/nowhere',
      engine: 'cpu',
      slots: 4,
      slotBytes: frame,
      workers: 2,
      process: 0,
      gpu,
      compress: 'none',
      zstdLevel: 1,
      frames,
      ...(stream && { stream }),
      ...parent?.optionFor(names[gpu] ?? ''),
      buffers: dmabufs.map((dmabuf, i) => ({
        id: ids[i] ?? -1,
        size: contents[ids[i] ?? -1]?.length ?? 0,
        dmabuf,
      })),
    });
    const summary = await job.done;
    drained.push({ file: await readFile(path), summary });
  }
  return drained;
}

/** An archive as a session would have it made, with or without parent. `stream` gets the pages files, too. */
export async function checkpoint(
  t: TestContext,
  contents: Contents,
  parent?: ParentIndexes,
  stream?: ContentsSender,
): Promise<Files> {
  const { files, manifest } = gpuCheckpoint();
  const drained = await drain(t, contents, parent, stream);
  manifest.host.machine = process.arch === 'x64' ? 'x86_64' : 'aarch64';
  drained.forEach(({ file, summary }, gpu) => {
    const name = names[gpu] ?? '';
    files[`checkpoint/${name}`] = file;
    manifest.files = manifest.files.map((one) =>
      one.name === name
        ? { name, size: file.length, digest: { algo: 'xxh3-128', hex: summary.root } }
        : one,
    );
    if (parent === undefined || summary.parent === undefined) return;
    manifest.features = { required: ['parent'], optional: [] };
    const refers = [...(manifest.parent?.files ?? []), { name, root: summary.parent }];
    manifest.parent = { archive: parent.archive, files: refers };
  });
  return { ...files, 'checkpoint/kfd-manifest.json': encodeManifest(manifest) };
}

/** What a session makes of it with a folder for the contents: pages files in `folder`, the rest for the archive. */
export async function detach(files: Files, folder: string): Promise<Files> {
  const rest: Files = { ...files };
  for (const name of names) {
    await writeFile(join(folder, name), files[`checkpoint/${name}`] ?? '');
    delete rest[`checkpoint/${name}`];
  }
  const key = 'checkpoint/kfd-manifest.json';
  const manifest = decodeManifest(Buffer.from(files[key] as string));
  manifest.features.required.unshift('detached');
  return { ...rest, [key]: encodeManifest(manifest) };
}
