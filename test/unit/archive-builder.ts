/** Checkpoints for tests, made in memory: the layout is podman's, the contents are not real. */

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Duplex, type Transform } from 'node:stream';
import type { TestContext } from 'node:test';
import { pack } from 'tar-stream';
import { boKinds } from '../../src/addon/images.js';
import type { ImageVerifier } from '../../src/archive/verifier.js';
import { KfdError } from '../../src/errors.js';
import { encodeManifest } from '../../src/manifest/codec.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { sampleManifest } from './manifest-sample.js';
import { temporaryFolder } from './paths.js';

export type Files = Record<string, Buffer | string>;

export const inventory = Buffer.from([0x16, 0x31, 0x31, 0x58, 0, 0, 0, 0]);

const root = '0123456789abcdef0123456789abcdef';

/** A stand-in for the native reader: "PAGES <process> <gpu> <buffers> <bytes>" is a sound file. */
export const fakeVerifier: ImageVerifier = {
  siblingCheck: () => ({ problems: () => [] }),
  pagesCheck() {
    let text = '';
    return {
      feed: (chunk) => {
        text += chunk.toString('latin1');
        if (!'PAGES '.startsWith(text.slice(0, 6))) {
          throw new KfdError('E_IMAGE_CORRUPT', 'pages file: frame 0: wrong checksum');
        }
      },
      finish: () => {
        const [process, gpu, buffers, contentBytes] = text.slice(6).split(' ').map(Number);
        // As in the sample manifest: two buffers on the first GPU, one on the second.
        const ids = Uint32Array.from(gpu === 1 ? [2, 3] : [0, 1, 3]);
        const sizes = Float64Array.from(gpu === 1 ? [1048576, 1] : [2097152, 4096, 1]);
        if (contentBytes === undefined) throw new KfdError('E_IMAGE_CORRUPT', 'pages file: cut');
        return {
          process: process ?? -1,
          gpu: gpu ?? -1,
          bufferIds: ids.subarray(0, buffers),
          bufferSizes: sizes.subarray(0, buffers),
          contentBytes,
          fileBytes: text.length,
          frames: 2,
          zeroFrames: 0,
          references: 0,
          siblings: 0,
          digests: true,
          root,
        };
      },
    };
  },
  stateHead: () => undefined,
  renderStateHead: () => undefined,
  stateFacts(bytes) {
    if (!bytes.toString().startsWith('STATE')) {
      throw new KfdError('E_IMAGE_CORRUPT', 'state file: wrong checksum');
    }
    const [vram, gtt, doorbell] = (['vram', 'gtt', 'doorbell'] as const).map((of) =>
      boKinds.indexOf(of),
    ) as [number, number, number];
    const bos = { sizes: new Float64Array(24), kinds: new Uint8Array(24).fill(doorbell) };
    bos.sizes.set([2097152, 4096, 1048576], 3);
    bos.kinds.set([vram, gtt, vram], 3);
    return { ordinal: 0, nsPid: 7, numObjects: 9, privBytes: 0, vmas: 0, devices: [], bos };
  },
  renderStateFacts(bytes) {
    const [, ordinal, size, kind = 0] = bytes.toString().split(' ').map(Number);
    if (ordinal === undefined || size === undefined) {
      throw new KfdError('E_IMAGE_CORRUPT', 'render state file: wrong checksum');
    }
    const bos = { sizes: Float64Array.of(size), kinds: Uint8Array.of(kind) };
    return { ordinal, contexts: 2, boLists: 1, mappings: 4, bos, handles: Uint32Array.of(3) };
  },
};

export interface Sample {
  readonly files: Files;
  readonly manifest: Manifest;
}

/** A GPU checkpoint that `fakeVerifier` finds sound. */
export function gpuCheckpoint(): Sample {
  const files: Files = {
    'checkpoint/inventory.img': inventory,
    'checkpoint/pages-1.img': Buffer.alloc(8192),
    'checkpoint/amdgpu-pages-0-0000.img': 'PAGES 0 0 2 2101248',
    'checkpoint/amdgpu-pages-0-0001.img': 'PAGES 0 1 1 1048576',
    'checkpoint/kfd-state-0.img': 'STATE',
    'config.dump': JSON.stringify({
      id: 'f00dfeed00112233445566778899aabbccddeeff00112233445566778899aabb',
      name: 'trainer',
      rootfsImageName: 'localhost/worker:latest',
      runtime: 'crun',
      createdTime: '2026-11-21T11:00:00Z',
      checkpointedTime: '2026-11-21T12:00:00Z',
    }),
    'spec.dump': JSON.stringify({
      annotations: { 'io.container.manager': 'libpod', 'io.kfd-checkpoint.version': '0.1.0' },
    }),
    'rootfs-diff.tar': Buffer.alloc(1024),
  };
  const manifest = sampleManifest();
  manifest.files = manifest.files.map((file) => {
    const content = Buffer.from(files[`checkpoint/${file.name}`] ?? '');
    const hex = createHash('sha256').update(content).digest('hex');
    const digest =
      file.digest.algo === 'sha256'
        ? ({ algo: 'sha256', hex } as const)
        : ({ algo: 'xxh3-128', hex: root } as const);
    return { name: file.name, size: content.length, digest };
  });
  files['checkpoint/kfd-manifest.json'] = encodeManifest(manifest);
  return { files, manifest };
}

export function plainCheckpoint(): Files {
  const { 'checkpoint/inventory.img': image, 'config.dump': config } = gpuCheckpoint().files;
  return { 'checkpoint/inventory.img': image ?? '', 'config.dump': config ?? '' };
}

export interface TarEntry {
  readonly name: string;
  readonly data?: Buffer | string;
  readonly type?: 'file' | 'directory' | 'symlink' | 'link';
  readonly linkname?: string;
}

/** A tar file, with entries exactly as given. */
export async function tarOf(entries: readonly TarEntry[]): Promise<Buffer> {
  const tar = pack();
  for (const { name, data = '', type = 'file', linkname } of entries) {
    tar.entry({ name, type, ...(linkname !== undefined && { linkname }) }, Buffer.from(data));
  }
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar as unknown as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export function entriesOf(files: Files): TarEntry[] {
  return [
    { name: 'checkpoint/', type: 'directory' },
    ...Object.entries(files).map(([name, data]) => ({ name, data })),
  ];
}

/** An archive of `files` in a folder of its own, which goes with the test. */
export async function archive(t: TestContext, files: Files): Promise<string> {
  const path = join(await temporaryFolder(t), 'job.tar');
  await writeFile(path, await tarOf(entriesOf(files)));
  return path;
}

/** A GPU checkpoint as if taken on a host like this one: a manifest names its machine. */
export function checkpointOfHere(bend: (manifest: Manifest) => void = () => undefined): Files {
  const { files, manifest } = gpuCheckpoint();
  manifest.host.machine = process.arch === 'x64' ? 'x86_64' : 'aarch64';
  bend(manifest);
  return { ...files, 'checkpoint/kfd-manifest.json': encodeManifest(manifest) };
}

export async function unpackTo(folder: string, files: Files): Promise<void> {
  for (const [name, data] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), data);
  }
}

/** zstd's own program as the decoder; the product uses libzstd. */
export function zstdProgram(): Transform {
  const program = spawn('zstd', ['-dcq'], { stdio: ['pipe', 'pipe', 'ignore'] });
  const failed = new Promise<void>((resolve, reject) => {
    program.on('error', reject);
    program.on('close', (code) => (code === 0 ? resolve() : reject(new Error('zstd failed'))));
  });
  failed.catch(() => undefined);
  program.stdin.on('error', () => undefined);
  return Duplex.from({
    readable: (async function* () {
      yield* program.stdout;
      await failed;
    })(),
    writable: program.stdin,
  }) as Transform;
}
