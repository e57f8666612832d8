/** Layouts with a checkpoint image of containerd, as `ctr image export` writes them. */

import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { bytesField } from '../../src/protobuf.js';
import { type Files, tarOf } from './archive-builder.js';

const kind = 'application/vnd.containerd.container';
export const types = {
  index: 'application/vnd.oci.image.index.v1+json',
  criu: `${kind}.criu.checkpoint.criu.tar`,
  spec: `${kind}.checkpoint.config.v1+proto`,
  options: `${kind}.checkpoint.options.v1+proto`,
  changes: 'application/vnd.oci.image.layer.v1.tar+gzip',
  base: 'application/vnd.oci.image.manifest.v1+json',
} as const;

export interface Part {
  readonly mediaType: string;
  readonly bytes: Buffer;
}

export const specUrl = 'types.containerd.io/opencontainers/runtime-spec/1/Spec';

/** A google.protobuf.Any. */
export const any = (url: string, value: string | Buffer) =>
  Buffer.concat([bytesField(1, url), bytesField(2, value)]);

/** CRIU's files of `files`, as containerd packs its temporary folder. */
export async function criuTar(files: Files): Promise<Buffer> {
  const inside = Object.entries(files).flatMap(([name, data]) =>
    name.startsWith('checkpoint/') ? [{ name: name.slice('checkpoint/'.length), data }] : [],
  );
  return tarOf(inside);
}

/** What `ctr container checkpoint --image --rw --task` puts into the index, in its order. */
export async function partsOf(files: Files, spec: string | Buffer): Promise<Part[]> {
  return [
    { mediaType: types.base, bytes: Buffer.from('{"schemaVersion":2,"layers":[]}') },
    {
      mediaType: types.changes,
      bytes: gzipSync(await tarOf([{ name: 'tmp/', type: 'directory' }])),
    },
    { mediaType: types.criu, bytes: await criuTar(files) },
    { mediaType: types.spec, bytes: any(specUrl, spec) },
    { mediaType: types.options, bytes: any('containerd.runc.v1.CheckpointOptions', '(\u0001') },
  ];
}

export const ofContainer = {
  'org.opencontainers.image.ref.name': 'docker.io/library/worker:latest',
  'io.containerd.checkpoint.runtime': 'io.containerd.runc.kfd.v2',
  'io.containerd.checkpoint.snapshotter': 'overlayfs',
};

export interface Named {
  readonly name?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Writes a layout with one image. Returns what blobs are called, by media type. */
export async function containerdLayout(
  dir: string,
  parts: readonly Part[],
  { name = 'localhost/saved:1', annotations = ofContainer }: Named = {},
): Promise<Readonly<Record<string, string>>> {
  await mkdir(join(dir, 'blobs/sha256'), { recursive: true });
  const put = async (bytes: Buffer) => {
    const hex = createHash('sha256').update(bytes).digest('hex');
    await writeFile(join(dir, 'blobs/sha256', hex), bytes);
    return { digest: `sha256:${hex}`, size: bytes.length };
  };
  const paths: Record<string, string> = {};
  const manifests = [];
  for (const { mediaType, bytes } of parts) {
    const blob = await put(bytes);
    paths[mediaType] = join(dir, 'blobs', blob.digest.replace(':', '/'));
    manifests.push({ mediaType, ...blob, platform: { os: 'linux', architecture: 'amd64' } });
  }
  const index = await put(
    Buffer.from(JSON.stringify({ schemaVersion: 2, manifests, annotations })),
  );
  const entry = {
    mediaType: types.index,
    ...index,
    annotations: {
      'io.containerd.image.name': name,
      'org.opencontainers.image.ref.name': name.split(':')[1] ?? name,
    },
  };
  await writeFile(
    join(dir, 'index.json'),
    JSON.stringify({ schemaVersion: 2, mediaType: types.index, manifests: [entry] }),
  );
  await writeFile(join(dir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  return paths;
}
