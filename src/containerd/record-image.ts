/**
 * An image from which `ctr container restore` makes a container again: its spec, its runtime, the name of its image,
 * and the changes of its root file system. It has no processes. containerd: client/container_restore_opts.go.
 */

import { createHash } from 'node:crypto';
import { createReadStream, promises } from 'node:fs';
import { join } from 'node:path';
import { bytesField } from '../protobuf.js';
import type { TaskRecord } from './ctr.js';

const types = {
  index: 'application/vnd.oci.image.index.v1+json',
  spec: 'application/vnd.containerd.container.checkpoint.config.v1+proto',
  changes: 'application/vnd.oci.image.layer.v1.tar+gzip',
} as const;

/** Of the Any that holds a spec (containerd: pkg/oci, typeurl). */
const specType = 'types.containerd.io/opencontainers/runtime-spec/1/Spec';

/** Its name in containerd, while the container is made. */
export const recordImageName = (id: string): string => `localhost/kfd-checkpoint-moves:${id}`;

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/**
 * Writes it as an OCI layout to `folder`, which is there, under the name `name`. `changes`: a tar file with gzip.
 * Throws Node's error.
 */
export async function writeRecordImage(
  folder: string,
  record: Pick<TaskRecord, 'Image' | 'Runtime' | 'Snapshotter' | 'Spec'>,
  name: string,
  changes: string | undefined,
): Promise<void> {
  const blobs = join(folder, 'blobs/sha256');
  await promises.mkdir(blobs, { recursive: true, mode: 0o700 });
  const blob = async (mediaType: string, bytes: Buffer): Promise<Descriptor> => {
    const digest = createHash('sha256').update(bytes).digest('hex');
    await promises.writeFile(join(blobs, digest), bytes, { mode: 0o600 });
    return { mediaType, digest: `sha256:${digest}`, size: bytes.length };
  };
  const spec = Buffer.concat([bytesField(1, specType), bytesField(2, JSON.stringify(record.Spec))]);
  const manifests = [await blob(types.spec, spec)];
  if (changes !== undefined) manifests.push(await moved(changes, blobs));
  const index = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: types.index,
      manifests,
      annotations: {
        'org.opencontainers.image.ref.name': record.Image,
        'io.containerd.checkpoint.runtime': record.Runtime.Name,
        'io.containerd.checkpoint.snapshotter': record.Snapshotter,
      },
    }),
  );
  const annotations = {
    'io.containerd.image.name': name,
    'org.opencontainers.image.ref.name': name,
  };
  const top = { ...(await blob(types.index, index)), annotations };
  const whole = { schemaVersion: 2, mediaType: types.index, manifests: [top] };
  await promises.writeFile(join(folder, 'index.json'), JSON.stringify(whole));
  await promises.writeFile(join(folder, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
}

/** The file becomes a blob. */
async function moved(path: string, blobs: string): Promise<Descriptor> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  const digest = hash.digest('hex');
  const { size } = await promises.stat(path);
  await promises.rename(path, join(blobs, digest));
  return { mediaType: types.changes, digest: `sha256:${digest}`, size };
}
