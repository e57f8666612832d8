/** A small sound image with real files of every kind, for tests that bend it. */

import { createHash } from 'node:crypto';
import type { Manifest } from '../../src/manifest/schema.js';
import type { Files } from './archive-builder.js';
import { inventory } from './archive-builder.js';
import { type ForgedBuffer, frameBytes, pagesFile } from './forged-pages.js';
import { renderStateFile, stateFile } from './forged-state.js';
import { sampleManifest } from './manifest-sample.js';
import { sealedText } from './manifest-sealed.js';

/** An image in the making: its files by name, and a manifest that is sealed in the end, whatever is in it. */
export interface Parts {
  manifest: Manifest;
  readonly files: Map<string, Buffer>;
}

export const names = {
  state: 'kfd-state-0.img',
  render: 'render-state-0.img',
  first: 'amdgpu-pages-0-0000.img',
  second: 'amdgpu-pages-0-0001.img',
} as const;

/** GPU ids of the sample manifest. */
export const gpuIds = [51966, 47806] as const;
/** BOs in KFD's state: the third is on the second GPU. The last one has no contents. */
export const kfdBos = [
  { size: frameBytes + 4096, flags: 1 },
  { size: 4096, flags: 2 },
  { size: frameBytes, flags: 1 },
  { size: 8192, flags: 8 },
] as const;
/** The BO of the render file on the first GPU. */
export const renderBo = { handle: 3, size: 4096 } as const;

export function content(seed: number, bytes: number = frameBytes): Buffer {
  return Buffer.alloc(bytes, `content ${seed} `);
}

/** The buffers of the two pages files. */
export const buffers: readonly (readonly ForgedBuffer[])[] = [
  [
    { id: 0, frames: [{ raw: content(1) }, { raw: content(2, 4096) }] },
    { id: 1, frames: [{ zero: 4096 }] },
    { id: 3, frames: [{ raw: content(3, 4096) }] },
  ],
  [{ id: 2, frames: [{ raw: content(4) }] }],
];

export function soundParts(): Parts {
  const manifest = sampleManifest();
  manifest.host.machine = process.arch === 'x64' ? 'x86_64' : 'aarch64';
  Object.assign(manifest.processes[0] as object, { num_bos: 5, num_objects: 0, num_queues: 0 });
  manifest.ext_files = [
    { criu_id: 5, kind: 'kfd', process: 0 },
    { criu_id: 6, kind: 'render', process: 0, gpu: 0, render_state: names.render },
  ];
  const at = { process: 0, gpu: 0, pages_file: names.first };
  manifest.buffers = [
    { id: 0, bo_index: 0, size: kfdBos[0].size, kind: 'vram', ...at },
    { id: 1, bo_index: 1, size: kfdBos[1].size, kind: 'gtt', ...at },
    { id: 2, bo_index: 2, size: frameBytes, kind: 'vram', ...at, gpu: 1, pages_file: names.second },
    { id: 3, bo_index: 4, size: renderBo.size, kind: 'vram', ...at },
  ];
  const devices = gpuIds.map((id) => [id, id] as const);
  const files = new Map([
    [names.state, stateFile({ devices, bos: kfdBos })],
    [names.render, renderStateFile({ bos: [renderBo], contexts: [1] })],
    [names.first, pagesFile({ buffers: buffers[0] ?? [] }).file],
    [names.second, pagesFile({ gpu: 1, buffers: buffers[1] ?? [] }).file],
  ] as const) as Map<string, Buffer>;
  const parts = { manifest, files };
  describeFiles(parts);
  return parts;
}

/** Makes `files` of the manifest say what the bytes are. */
export function describeFiles(parts: Parts): void {
  parts.manifest.files = [...parts.files].map(([name, bytes]) => ({
    name,
    size: bytes.length,
    digest: name.startsWith('amdgpu-pages')
      ? { algo: 'xxh3-128', hex: bytes.subarray(-40, -24).toString('hex').padEnd(32, '0') }
      : { algo: 'sha256', hex: createHash('sha256').update(bytes).digest('hex') },
  }));
}

/** The files of an image directory. Its manifest is sealed, whatever is in it. */
export function imageFiles({ manifest, files }: Parts): Files {
  return {
    'inventory.img': inventory,
    'kfd-manifest.json': sealedText(manifest),
    ...Object.fromEntries(files),
  };
}

/** The entries of an archive. */
export function checkpointFiles(parts: Parts): Files {
  const image = Object.entries(imageFiles(parts)).map(
    ([name, bytes]) => [`checkpoint/${name}`, bytes] as const,
  );
  const config = JSON.stringify({ id: 'f00d', name: 'trainer', runtime: 'crun' });
  return { ...Object.fromEntries(image), 'config.dump': config, 'spec.dump': '{}' };
}

/** An image whose first frame is in its parent: in `base`, an archive of this name. */
export function childParts(base: Parts, archive = 'base.tar'): Parts {
  const parts = soundParts();
  const root = base.manifest.files.find(({ name }) => name === names.first)?.digest.hex ?? '';
  const [buffer, ...others] = buffers[0] ?? [];
  const frames = [{ like: content(1), reference: 0 }, ...(buffer?.frames.slice(1) ?? [])];
  const { file } = pagesFile({ parent: root, buffers: [{ id: 0, frames }, ...others] });
  parts.files.set(names.first, file);
  describeFiles(parts);
  parts.manifest.features = { required: ['parent'], optional: [] };
  parts.manifest.parent = { archive, files: [{ name: names.first, root }] };
  return parts;
}
