/** Config and manifest of a checkpoint image, as the OCI image specification 1.1 describes them. */

import type { Manifest } from '../manifest/schema.js';
import type { Descriptor } from './oci-layout.js';
import { mediaTypes } from './oci-writer.js';

/** What Go calls machines. */
const architectures: Readonly<Record<string, string>> = { x86_64: 'amd64', aarch64: 'arm64' };

/** The config of an image with these uncompressed layers. `labels` are for podman's filters. */
export function imageConfig(
  { created, host: { machine } }: Manifest,
  layers: readonly Descriptor[],
  labels: Readonly<Record<string, string>>,
): Buffer {
  return asBytes({
    created,
    architecture: architectures[machine] ?? machine,
    os: 'linux',
    config: { Labels: labels },
    rootfs: { type: 'layers', diff_ids: layers.map(({ digest }) => digest) },
    history: layers.map(() => ({ created, created_by: 'kfd-checkpoint image' })),
  });
}

export function imageManifest(
  config: Descriptor,
  layers: readonly Descriptor[],
  annotations: Readonly<Record<string, string>>,
): Buffer {
  return asBytes({
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    config,
    layers,
    annotations,
  });
}

const asBytes = (document: unknown) => Buffer.from(JSON.stringify(document));
