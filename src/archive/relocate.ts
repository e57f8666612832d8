/**
 * New contents of a few entries of an archive, so that the container engine restores its container with the devices of
 * this host. GPU contents and states stay byte for byte.
 */

import { promisify } from 'node:util';
import { gunzip, gzipSync } from 'node:zlib';
import { KfdError } from '../errors.js';
import type { Placement } from '../gpu/compare.js';
import { type DeviceMove, numbers } from '../gpu/device-numbers.js';
import type { GoneCard } from '../gpu/gone-cards.js';
import type { DeviceNumber, Host } from '../gpu/host.js';
import { kindsOf } from '../gpu/ignorable.js';
import { encodeManifest } from '../manifest/codec.js';
import { manifestName } from '../manifest/names.js';
import type { Manifest, ManifestGpu } from '../manifest/schema.js';
import { deviceAnnotations } from '../runtime/annotate.js';
import type { Cdi } from '../runtime/cdi.js';
import { cdiNameOf } from '../runtime/cdi-gpus.js';
import { cdiNames } from './cdi-names.js';
import { collect } from './contents.js';
import { hasDevices, rewriteNodes, tmpfsImagePattern } from './device-nodes.js';
import { type DocumentChanges, rewriteConfig, rewriteSpec } from './device-rules.js';
import { imagePrefix, smallFiles } from './names.js';
import type { Visit } from './walk.js';

/** New contents by entry name. */
export type Replacements = ReadonlyMap<string, Buffer>;

/**
 * Bytes of an image of /dev, which holds hardly more than nodes. A larger image is another mount and is not read.
 * `kept` is for all images with device nodes together.
 */
export const limits = { packed: 1 << 20, unpacked: 16 << 20, kept: 8 << 20 } as const;

/** Facts about an archive before it is rewritten. */
export interface Source {
  readonly manifest: Manifest;
  /** Texts of config.dump and spec.dump. */
  readonly config: string;
  readonly spec: string;
  /** CRIU's images of tmpfs mounts, by entry name. */
  readonly tmpfs: ReadonlyMap<string, Buffer>;
}

/**
 * A visitor that stores CRIU's images of tmpfs mounts with device nodes in `images`. Throws E_IMAGE_CORRUPT for an
 * unreadable one, and beyond the limits.
 */
export function tmpfsCollector(images: Map<string, Buffer>): Visit {
  let kept = 0;
  return async (entry, content) => {
    if (!entry.name.startsWith(imagePrefix) || entry.size > limits.packed) return;
    if (!tmpfsImagePattern.test(entry.name.slice(imagePrefix.length))) return;
    const image = await collect(entry, content, limits.packed);
    const tar = await unpacked(entry.name, image);
    if (tar === undefined || !hasDevices(tar)) return;
    kept += image.length;
    if (kept > limits.kept) {
      throw new KfdError('E_IMAGE_CORRUPT', `${entry.name}: more devices than any container has`);
    }
    images.set(entry.name, image);
  };
}

/**
 * Entries with new contents. `cdi`: the specifications of this host. Throws E_IMAGE_CORRUPT for an unreadable entry,
 * E_UNSUPPORTED_STATE when the archive lacks a node that must change.
 */
export async function relocate(
  source: Source,
  placement: Placement,
  host: Host,
  cdi: Cdi,
): Promise<Replacements> {
  const changes = documentChanges(placement, host, cdi);
  return new Map([
    [smallFiles.spec, Buffer.from(rewriteSpec(source.spec, changes))],
    [smallFiles.config, Buffer.from(rewriteConfig(source.config, changes))],
    ...(await relocateImage(source, placement, host)),
  ]);
}

function documentChanges({ pairs, moves, gone }: Placement, host: Host, cdi: Cdi): DocumentChanges {
  const annotations = deviceAnnotations(
    kfdOf(host),
    pairs.map(({ present }) => present),
    (gpu) => cdiNameOf(gpu, cdi, host),
  );
  const lost = gone.map(({ from }) => from);
  return { moves, gone: lost, annotations, cdi: cdiNames(pairs, cdi, host) };
}

/** The same for the text of an OCI spec alone. Throws E_IMAGE_CORRUPT. */
export function relocateSpec(spec: string, placement: Placement, host: Host, cdi: Cdi): string {
  return rewriteSpec(spec, documentChanges(placement, host, cdi));
}

/** The same for CRIU's image directory alone. */
export async function relocateImage(
  source: Pick<Source, 'manifest' | 'tmpfs'>,
  { pairs, moves, gone, ignored }: Placement,
  host: Host,
): Promise<Replacements> {
  const kfdDevice = kfdOf(host);
  const replacements = new Map<string, Buffer>();
  const devices: Manifest['devices'] = {
    kfd_major: kfdDevice.major,
    kfd_minor: kfdDevice.minor,
    render: host.gpus.flatMap(({ renderDevice }) => (renderDevice ? [renderDevice] : [])),
    assigned: pairs.map(({ recorded, present }) => ({
      gpu: recorded.ordinal,
      render_minor: present.record.render_minor,
      ...(recorded.card_minor !== undefined &&
        present.cardDevice && { card_minor: present.cardDevice.minor }),
    })),
  };
  // The session knows the configuration only: what the command line ignores, the archive has to say.
  const { ignored: _, ...rest } = source.manifest;
  const said = ignored.length === 0 ? {} : { ignored: kindsOf(ignored) };
  const manifest = { ...rest, gpus: withoutCards(rest.gpus, gone), devices, ...said };
  replacements.set(imagePrefix + manifestName, Buffer.from(encodeManifest(manifest)));
  const missing = new Set(moves.filter((move) => needsNode(source.manifest, move)));
  const changes = { moves, gone: gone.map(({ from }) => from) };
  for (const [name, image] of source.tmpfs) {
    const packed = await relocateNodes(name, image, changes, missing);
    if (packed !== undefined) replacements.set(name, packed);
  }
  const [first] = missing;
  if (first !== undefined) throw withoutNode(first);
  return replacements;
}

function kfdOf({ kfdDevice }: Host): DeviceNumber {
  if (kfdDevice === undefined) throw new KfdError('E_NO_GPU', '/dev/kfd: not on this host');
  return kfdDevice;
}

function withoutNode({ what, from }: DeviceMove): KfdError {
  return new KfdError(
    'E_UNSUPPORTED_STATE',
    `${what}: no image of a tmpfs in the archive has its node ${numbers(from)}`,
    {
      hint:
        'restore where the devices have the numbers of the archive; ' +
        'bind-mounted device nodes cannot be rewritten',
    },
  );
}

/** The container has these card nodes no more. */
function withoutCards(gpus: readonly ManifestGpu[], gone: readonly GoneCard[]): ManifestGpu[] {
  const lost = new Set(gone.map(({ gpu }) => gpu));
  return gpus.map((gpu) => {
    if (!lost.has(gpu.ordinal)) return gpu;
    const { card_minor: _, ...rest } = gpu;
    return rest;
  });
}

/**
 * A container may have no render node of a GPU that it only may use; no mapping is without a buffer. Card nodes are
 * recorded where it has them.
 */
function needsNode({ ext_files: files, buffers }: Manifest, { gpu, node }: DeviceMove): boolean {
  return node !== 'renderD' || [...files, ...buffers].some((one) => one.gpu === gpu);
}

/** undefined: nothing in it must change. */
async function relocateNodes(
  name: string,
  image: Buffer,
  { moves, gone }: Pick<DocumentChanges, 'moves' | 'gone'>,
  missing: Set<DeviceMove>,
): Promise<Buffer | undefined> {
  const tar = await unpacked(name, image);
  if (tar === undefined) return undefined;
  const rewritten = rewriteNodes(tar, moves, gone);
  for (const move of rewritten.found) missing.delete(move);
  return rewritten.tar === tar ? undefined : gzipSync(rewritten.tar);
}

/** undefined: too large for /dev. */
async function unpacked(name: string, image: Buffer): Promise<Buffer | undefined> {
  try {
    return await promisify(gunzip)(image, { maxOutputLength: limits.unpacked });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE') {
      return undefined;
    }
    throw new KfdError('E_IMAGE_CORRUPT', `${name}: ${(error as Error).message}`, { cause: error });
  }
}
