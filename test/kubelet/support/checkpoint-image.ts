/** An image of a kubelet's archive, as buildah makes it: one layer with the archive's files, and an annotation. */

import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from '../../e2e/support/command.js';
import { ctr } from './state.js';

const folder = '/var/lib/containers/checkpoint-image';
const type = 'application/vnd.oci.image';

/** By this annotation containerd knows images of checkpoints; its value is the container's name. */
const mark = 'org.criu.checkpoint.container.name';

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

const blobs = join(folder, 'blobs/sha256');

function putJson(mediaType: string, value: object): Descriptor {
  const text = JSON.stringify(value);
  const hash = createHash('sha256').update(text).digest('hex');
  writeFileSync(join(blobs, hash), text);
  return { mediaType, digest: `sha256:${hash}`, size: Buffer.byteLength(text) };
}

async function putFile(mediaType: string, path: string): Promise<Descriptor> {
  const sum = createHash('sha256');
  await pipeline(createReadStream(path), sum);
  const hash = sum.digest('hex');
  await run('cp', path, join(blobs, hash));
  return { mediaType, digest: `sha256:${hash}`, size: statSync(path).size };
}

/** Gives Kubernetes the image `name` of `archive`, whose container was called `container`. */
export async function importAsImage(
  archive: string,
  name: string,
  container: string,
): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(blobs, { recursive: true });
  const layer = await putFile(`${type}.layer.v1.tar`, archive);
  const config = putJson(`${type}.config.v1+json`, {
    architecture: 'amd64',
    os: 'linux',
    config: {},
    rootfs: { type: 'layers', diff_ids: [layer.digest] },
  });
  const manifest = putJson(`${type}.manifest.v1+json`, {
    schemaVersion: 2,
    mediaType: `${type}.manifest.v1+json`,
    config,
    layers: [layer],
    annotations: { [mark]: container },
  });
  const named = { ...manifest, annotations: { 'io.containerd.image.name': name } };
  const index = { schemaVersion: 2, manifests: [named] };
  writeFileSync(join(folder, 'index.json'), JSON.stringify(index));
  writeFileSync(join(folder, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  const file = `${folder}.tar`;
  await run('tar', '-C', folder, '-cf', file, '.');
  await ctr('image', 'import', file);
  for (const path of [folder, file]) rmSync(path, { recursive: true });
}
