/**
 * The GPUs that the container was given here: by a device plugin, by CDI, or by hand. Its spec has their nodes. The
 * image has those of the source host. A restore uses the container's, and the image follows.
 */

import { realpath, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { copyMovedImage, copyPrefix, moveImage } from '../../src/archive/moved-image.js';
import { asKfdError, isOtherMount, KfdError } from '../../src/errors.js';
import { type Choices, type Placement, placeOnHost } from '../../src/gpu/compare.js';
import { numbers } from '../../src/gpu/device-numbers.js';
import { type Host, readHost } from '../../src/gpu/host.js';
import type { Offered } from '../../src/gpu/pair.js';
import { placeWhenFree } from '../../src/gpu/wait-vram.js';
import { foldersFor, needsFolders, rootsOf, supplied } from '../../src/manifest/elsewhere.js';
import { imageState } from '../../src/manifest/image.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { readBounded } from '../../src/os/files.js';
import { imageCopyFile } from '../../src/runtime/shim-names.js';
import type { FindContents } from '../../src/session/restore/preflight.js';

export interface Allotted {
  /** The image directory to restore from. */
  readonly image: string;
  /** Undefined: the spec has no GPU. */
  readonly only: Offered | undefined;
}

export interface AllottedOptions {
  /** The image belongs to the shim, which may change it. */
  readonly isOwn: boolean;
  /** Root folder of the system; "/" by default. */
  readonly root?: string;
  readonly find?: FindContents;
}

const specBytes = 16 << 20;

/**
 * Finds what to restore `image` from into the container `id`. Where numbers differ it is a copy of links, which the
 * caller removes, or the image itself, changed. The bundle names the copy, for a caller that is killed. What else is
 * against a restore is for the pre-flight. Throws E_IMAGE_*, E_UNSUPPORTED_STATE, E_IO.
 */
export async function allotted(
  { id, bundle, checkpoint: image }: { id: string; bundle: string; checkpoint: string },
  choices: Choices,
  { isOwn, root = '/', find = async () => [] }: AllottedOptions,
): Promise<Allotted> {
  const found = await imageState(image);
  if (found.state !== 'sealed') return { image, only: undefined };
  const { manifest } = found;
  const here = await suppliedHere(manifest, find);
  const nodes = await gpuNodes(bundle);
  const onlyOn = (host: Host) => (nodes.render.size === 0 ? undefined : offered(nodes, host));
  const { host, placement } = await placeWhenFree(
    () => readHost({ root }),
    (now) => placeOnHost(here, now, withOnly(choices, onlyOn(now))),
  );
  const only = onlyOn(host);
  // The spec of another host, as in containerd's own images, allows the devices of that one: nothing could open KFD.
  const isOfHere = host.kfdDevice !== undefined && nodes.kfd === numbers(host.kfdDevice);
  if (only === undefined || !isOfHere || !mustMove(placement, choices)) return { image, only };
  if (isOwn) {
    await moveImage(image, manifest, placement, host);
    return { image, only };
  }
  const make = async (copy: string) => {
    await writeFile(join(bundle, imageCopyFile), `${copy}\n`, { mode: 0o600 });
    await copyMovedImage(image, copy, manifest, placement, host);
    return { image: copy, only };
  };
  const { beside, inside } = await copiesOf(image, id);
  try {
    return await make(beside).catch((error: unknown) => {
      if (!isOtherMount(error)) throw error;
      return make(inside);
    });
  } catch (error) {
    throw withHint(error, beside);
  }
}

/** The manifest without what folders of somebody's have. */
async function suppliedHere(manifest: Manifest, find: FindContents): Promise<Manifest> {
  const folders = needsFolders(manifest) ? await find(rootsOf(manifest)) : [];
  for (const folder of folders) await folder.close();
  return supplied(manifest, foldersFor(manifest, folders));
}

/** Where the copy can be. Links do not leave a mount: when the image is one, the copy is in it. */
async function copiesOf(image: string, id: string) {
  const folder = await realpath(image);
  const name = `kfd-${id.replace(/[^\w.-]/g, '_')}`;
  return {
    beside: join(dirname(folder), `.${basename(folder)}.${name}`),
    inside: join(folder, `${copyPrefix}${name}`),
  };
}

/** The choices of the configuration, with the container's GPUs. Its map is for restores that nobody has allotted. */
export function withOnly(choices: Choices, only: Offered | undefined): Choices {
  return only === undefined ? choices : { ...choices, gpu_map: {}, only };
}

function mustMove(
  { mismatches, moves, gone, pairs }: Placement,
  { gpu_map: map = {} }: Choices,
): boolean {
  // Reasons that no other numbers remove: the pre-flight tells them.
  const isPossible = mismatches.length === 0;
  // The session would follow the map of the configuration, if the manifest did not say which GPUs it is.
  const isMapped = pairs.length > 0 && Object.keys(map).length > 0;
  return isPossible && (moves.length > 0 || gone.length > 0 || isMapped);
}

function withHint(error: unknown, copy: string): KfdError {
  const known = asKfdError(error, copy);
  const hint = 'put the image into a folder that can be written: its device numbers must change';
  return known.hint === undefined
    ? new KfdError(known.code, known.message, { cause: error, hint })
    : known;
}

function offered({ render }: GpuNodes, host: Host): Offered {
  const gpus = host.gpus.filter(
    ({ renderDevice: node }) => node !== undefined && render.has(numbers(node)),
  );
  return {
    minors: new Set(gpus.map(({ record }) => record.render_minor)),
    by: "the container's spec",
  };
}

/** "major:minor" of nodes in a spec. */
interface GpuNodes {
  readonly kfd: string | undefined;
  readonly render: ReadonlySet<string>;
}

/** Those of the bundle; none for a spec that the OCI runtime will refuse. */
async function gpuNodes(bundle: string): Promise<GpuNodes> {
  const render = new Set<string>();
  let kfd: string | undefined;
  for (const device of await devicesOf(bundle)) {
    const { path, major, minor } = isObject(device) ? device : {};
    if (typeof path !== 'string' || typeof major !== 'number' || typeof minor !== 'number')
      continue;
    if (path === '/dev/kfd') kfd = numbers({ major, minor });
    if (path.startsWith('/dev/dri/renderD')) render.add(numbers({ major, minor }));
  }
  return { kfd, render };
}

async function devicesOf(bundle: string): Promise<readonly unknown[]> {
  try {
    const spec: unknown = JSON.parse(
      (await readBounded(join(bundle, 'config.json'), specBytes)).toString(),
    );
    const linux = isObject(spec) ? spec['linux'] : undefined;
    const devices = isObject(linux) ? linux['devices'] : undefined;
    return Array.isArray(devices) ? devices : [];
  } catch {
    return []; // the OCI runtime reports it
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
