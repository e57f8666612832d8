/** A sound GPU checkpoint without buffers, which hostile inputs are made from, and the host that it fits. */

import { createHash } from 'node:crypto';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { encodeManifest } from '../../src/manifest/codec.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { entriesOf, type Files, inventory, tarOf } from '../unit/archive-builder.js';
import { sampleManifest } from '../unit/manifest-sample.js';
import { fixtures } from '../unit/paths.js';
import { rawTar } from '../unit/raw-tar.js';

const stateFixture = join(fixtures, 'image-v1/state-empty.img');
const stateFile = 'kfd-state-0.img';
/** Name of CRIU's image of /dev, where the device numbers are. */
export const deviceImage = 'checkpoint/tmpfs-dev-38.tar.gz.img';

/** The manifest of `soundFiles`. */
export async function soundManifest(): Promise<Manifest> {
  const state = await readFile(stateFixture);
  const hex = createHash('sha256').update(state).digest('hex');
  const manifest = sampleManifest();
  const [process] = manifest.processes;
  if (process === undefined) throw new Error('the sample has a process');
  return {
    ...manifest,
    host: { ...manifest.host, machine: machine() },
    processes: [
      {
        ...process,
        ns_pid: 0,
        num_bos: 0,
        num_queues: 0,
        num_objects: 0,
        vram_bytes: 0,
        gtt_bytes: 0,
      },
    ],
    ext_files: [{ criu_id: 5, kind: 'kfd', process: 0 }],
    buffers: [],
    files: [{ name: stateFile, size: state.length, digest: { algo: 'sha256', hex } }],
  };
}

/** `verify`, `inspect` and `check` find nothing wrong with them; `restore` can rewrite them. */
export async function soundFiles(): Promise<Files> {
  return {
    'checkpoint/inventory.img': inventory,
    [`checkpoint/${stateFile}`]: await readFile(stateFixture),
    [deviceImage]: gzipSync(rawTar([{ name: './kfd', type: '3', major: 234, minor: 0 }])),
    'config.dump': JSON.stringify({ id: 'f00d', name: 'trainer', runtime: 'crun' }),
    'spec.dump': '{"linux":{"devices":[{"path":"/dev/kfd","type":"c","major":234,"minor":0}]}}',
    'checkpoint/kfd-manifest.json': encodeManifest(await soundManifest()),
  };
}

function machine(): string {
  return process.arch === 'x64' ? 'x86_64' : 'aarch64';
}

/** An archive of these files, uncompressed. Returns its path. */
export async function archiveOf(dir: string, files: Files, name = 'job.tar'): Promise<string> {
  return written(dir, name, await tarOf(entriesOf(files)));
}

/** Writes a file and returns its path. */
export async function written(dir: string, name: string, bytes: Buffer | string): Promise<string> {
  const path = join(dir, name);
  await writeFile(path, bytes);
  return path;
}

/** Options that name a host with the recorded GPUs, for `check` and `restore`. "moved": with other device numbers. */
export async function hostOptions(dir: string, state: 'same' | 'moved'): Promise<string[]> {
  const root = join(dir, 'root');
  await cp(join(fixtures, 'sysfs/two-gpus'), root, { recursive: true, verbatimSymlinks: true });
  if (state === 'moved') await writeFile(join(root, 'sys/class/kfd/kfd/dev'), '511:0\n');
  return ['--root', root];
}
