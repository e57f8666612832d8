/** OCI image layouts of checkpoint images, as podman and skopeo write them. */

import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export const manifestType = 'application/vnd.oci.image.manifest.v1+json';
export const layerType = 'application/vnd.oci.image.layer.v1.tar';

export interface Layer {
  readonly bytes: Buffer;
  readonly mediaType?: string;
  /** What the manifest says instead of the truth. */
  readonly size?: number;
}

export interface Image {
  readonly layers: readonly Layer[];
  readonly tag?: string;
  readonly mediaType?: string;
  /** Of its manifest. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** What the index says instead of the manifest's digest. */
  readonly digest?: string;
}

const digestOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** Writes a layout into `dir`. Returns the paths of all layers. */
export async function layout(dir: string, images: readonly Image[]): Promise<string[]> {
  await mkdir(join(dir, 'blobs/sha256'), { recursive: true });
  const paths: string[] = [];
  const put = async (bytes: Buffer, size = bytes.length) => {
    const digest = digestOf(bytes);
    await writeFile(join(dir, 'blobs/sha256', digest), bytes);
    return { digest: `sha256:${digest}`, size };
  };
  const manifests = [];
  for (const { layers, tag, mediaType = manifestType, annotations: own, digest } of images) {
    const described = [];
    for (const layer of layers) {
      described.push({
        mediaType: layer.mediaType ?? layerType,
        ...(await put(layer.bytes, layer.size)),
      });
      paths.push(join(dir, 'blobs/sha256', digestOf(layer.bytes)));
    }
    const config = await put(Buffer.from('{}'));
    const manifest = await put(
      Buffer.from(
        JSON.stringify({ schemaVersion: 2, config, layers: described, annotations: own }),
      ),
    );
    const annotations = tag === undefined ? {} : { 'org.opencontainers.image.ref.name': tag };
    manifests.push({
      mediaType,
      ...manifest,
      ...(digest !== undefined && { digest }),
      annotations,
    });
  }
  await writeFile(join(dir, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
  await writeFile(join(dir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  return paths;
}
