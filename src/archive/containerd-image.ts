/**
 * Checkpoint images that containerd makes (`ctr container checkpoint --task`, `ctr task checkpoint`). Such an image is
 * an index and no manifest. It names CRIU's image directory as a tar file, the container's OCI spec, and what
 * containerd needs beside them (containerd: client/container_checkpoint_opts.go, core/images/mediatypes.go).
 */

import * as v from 'valibot';
import { KfdError } from '../errors.js';
import { fieldsOf } from '../protobuf.js';
import { smallFiles } from './names.js';
import { type Blob, blobOf, type Descriptor, indexDocument, parseDocument } from './oci-layout.js';
import type { ContainerdDocuments } from './walk.js';

const mediaTypes = {
  checkpoint: 'application/vnd.containerd.container.criu.checkpoint.criu.tar',
  spec: 'application/vnd.containerd.container.checkpoint.config.v1+proto',
  /** The changes of the root file system (`--rw`). containerd looks for this kind only. */
  changes: 'application/vnd.oci.image.layer.v1.tar+gzip',
} as const;

const annotations = {
  /** Of `ctr container checkpoint`: the container's image, its runtime. */
  image: 'org.opencontainers.image.ref.name',
  runtime: 'io.containerd.checkpoint.runtime',
  /** Of `ctr task checkpoint`, which says nothing of the runtime. */
  imageOfTask: 'image.name',
} as const;

export interface ContainerdImage {
  /** CRIU's image directory: a tar file. */
  readonly checkpoint: Blob;
  /** Missing in images of other clients. */
  readonly spec: Blob | undefined;
  /** The image that the container was made of. */
  readonly base: string | undefined;
  /** containerd's name of the runtime; undefined for an image that only `ctr run --checkpoint` restores. */
  readonly runtime: string | undefined;
  readonly hasChanges: boolean;
}

const document = v.object({
  ...indexDocument.entries,
  annotations: v.optional(v.record(v.string(), v.string()), {}),
});

/**
 * What the bytes of an index, called `name`, say. `shown`: what the user has named. Throws E_IMAGE_CORRUPT for another
 * index, and E_IMAGE_MISSING for an image without processes.
 */
export function containerdImage(index: Buffer, name: string, shown: string): ContainerdImage {
  const { manifests, annotations: said } = parseDocument(document, index, name, shown);
  const [checkpoint] = the(mediaTypes.checkpoint, manifests, shown);
  const [spec] = the(mediaTypes.spec, manifests, shown);
  const runtime = said[annotations.runtime];
  if (checkpoint === undefined) throw withoutProcesses(shown, spec ?? runtime);
  return {
    checkpoint: blobOf(checkpoint),
    spec: spec && blobOf(spec),
    base: said[annotations.image] ?? said[annotations.imageOfTask],
    runtime,
    hasChanges: manifests.some(({ mediaType }) => mediaType === mediaTypes.changes),
  };
}

/** The only descriptor of this kind. containerd takes the first one, other readers may take another. */
function the(mediaType: string, manifests: readonly Descriptor[], shown: string): Descriptor[] {
  const found = manifests.filter((one) => one.mediaType === mediaType);
  if (found.length <= 1) return found;
  throw new KfdError('E_IMAGE_CORRUPT', `${shown}: ${mediaType} is there ${found.length} times`, {
    hint: 'use another copy of the image',
  });
}

function withoutProcesses(shown: string, trace: unknown): KfdError {
  if (trace === undefined) {
    return new KfdError('E_IMAGE_CORRUPT', `${shown}: an index of images, and not a checkpoint`, {
      hint: 'name a checkpoint image of podman or containerd',
    });
  }
  return new KfdError('E_IMAGE_MISSING', `${shown}: has no processes, only the container`, {
    hint:
      'use "ctr container checkpoint --task". containerd 1.7 leaves them out where the same container was ' +
      'checkpointed before: restart the container first',
  });
}

/**
 * What podman has in config.dump and spec.dump, of an image and the bytes of its spec, which `manifestBytes` has
 * bounded. Throws E_IMAGE_CORRUPT for bytes that are not a spec.
 */
export function documentsOf(
  { base, runtime }: ContainerdImage,
  spec: Buffer | undefined,
  shown: string,
): ContainerdDocuments {
  return {
    [smallFiles.config]: Buffer.from(JSON.stringify({ rootfsImageName: base, runtime })),
    ...(spec && { [smallFiles.spec]: specIn(spec, shown) }),
  };
}

const specType = /(^|\/)opencontainers\/runtime-spec\/\d+\/Spec$/;

/** The JSON in a google.protobuf.Any: `type_url` is field 1, `value` field 2. Of several the last one counts. */
function specIn(bytes: Buffer, shown: string): Buffer {
  const corrupt = (reason: string, cause?: unknown) =>
    new KfdError('E_IMAGE_CORRUPT', `${shown}: the container's spec: ${reason}`, {
      hint: 'use another copy of the image',
      ...(cause !== undefined && { cause }),
    });
  let type: Buffer | undefined;
  let value: Buffer | undefined;
  try {
    for (const field of fieldsOf(bytes)) {
      if (!Buffer.isBuffer(field.value)) continue;
      if (field.number === 1) type = field.value;
      if (field.number === 2) value = field.value;
    }
  } catch (error) {
    throw corrupt('damaged', error);
  }
  if (type === undefined || type.length > 200 || !specType.test(type.toString('latin1'))) {
    throw corrupt('of an unknown kind');
  }
  return value ?? Buffer.alloc(0);
}
