/** The target of `kfd-checkpoint restore`: an archive, an image, or a container that was checkpointed in place. */

import { realpath, stat } from 'node:fs/promises';
import * as v from 'valibot';
import { isMissing, KfdError } from '../errors.js';
import type { Run } from '../os/exec.js';
import { refuseContainerd } from './containerd-steps.js';
import type { CommandContext } from './context.js';
import { type NamedCheckpoint, withCheckpoint } from './image-reference.js';

/** `path`: podman's bundle, which contains `checkpoint`. */
export interface Container {
  readonly kind: 'container';
  readonly path: string;
  readonly id: string;
}

/** A checkpoint image that podman stores. `path`: where its contents are mounted. */
export interface StoredImage {
  readonly kind: 'image';
  readonly path: string;
  readonly image: string;
}

/** `layers`: archives with stores of the same image. */
export type RestoreTarget =
  | { readonly kind: 'archive'; readonly path: string; readonly layers?: readonly string[] }
  | StoredImage
  | Container;

const inspected = v.pipe(
  v.array(v.object({ Id: v.string(), StaticDir: v.string() })),
  v.minLength(1),
);

/** Podman waits for the lock of a container that another command uses. */
const podmanMs = 60_000;

/**
 * Calls `work` with what `name` means: a reference of an image, or else as `restoreTarget`. It is there until `work`
 * ends. Throws as `withCheckpoint` and `restoreTarget`.
 */
export async function withRestoreTarget<T>(
  name: string,
  context: CommandContext,
  work: (target: RestoreTarget) => Promise<T>,
): Promise<T> {
  const restore = async ({ path, layers, reference }: NamedCheckpoint) => {
    if (reference === undefined) return work(await restoreTarget(name, context.run));
    return work(
      reference.transport === 'containers-storage'
        ? { kind: 'image', path, image: reference.image }
        : { kind: 'archive', path, layers },
    );
  };
  return withCheckpoint(name, context, restore, refuseContainerd(name, 'podman cannot restore it'));
}

/**
 * `name`: a path, or the name of a podman container. A file comes before a container, and a container before a folder
 * that happens to have its name. Throws E_NOT_FOUND, E_USAGE, E_HOST, E_TIMEOUT.
 */
export async function restoreTarget(name: string, run: Run): Promise<RestoreTarget> {
  const kind = await kindOf(name);
  if (kind === 'file') return { kind: 'archive', path: name };
  if (kind === 'folder') {
    const bundle = await bundleAt(name);
    if (bundle !== undefined) return bundle;
  }
  const found = containerName.test(name) ? await containerOf(name, run) : undefined;
  if (found !== undefined) return found;
  if (kind === undefined) {
    throw new KfdError('E_NOT_FOUND', `${name}: neither a file nor a container`);
  }
  throw new KfdError('E_USAGE', `${name}: is not the bundle of a podman container`, {
    hint: 'name an archive, or a container that was checkpointed in place',
  });
}

/** The container whose bundle the folder `name` is, by its place below podman's; undefined for another folder. */
export async function bundleAt(name: string): Promise<Container | undefined> {
  const path = await realpath(name);
  const id = /\/([0-9a-f]{64})\/userdata$/.exec(path)?.[1];
  return id === undefined ? undefined : { kind: 'container', path, id };
}

const containerName = /^[a-zA-Z0-9][\w.-]*$/;

async function kindOf(name: string): Promise<'file' | 'folder' | undefined> {
  try {
    return (await stat(name)).isDirectory() ? 'folder' : 'file';
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** The container `name`; undefined when podman has none. Throws E_HOST, E_TIMEOUT. */
export async function containerOf(name: string, run: Run): Promise<Container | undefined> {
  const found = await run('podman', ['container', 'inspect', name], { timeoutMs: podmanMs });
  if (found === undefined) {
    throw new KfdError('E_HOST', `${name}: is no file, and podman, which may know it, is missing`, {
      hint: 'name an archive, or install podman',
    });
  }
  if (found.status === undefined) {
    throw new KfdError('E_TIMEOUT', `podman: did not describe container ${name} in 60 s`, {
      hint: 'wait for the other command that uses this container',
    });
  }
  if (found.status !== 0) return undefined;
  try {
    const [first] = v.parse(inspected, JSON.parse(found.stdout));
    return first && { kind: 'container', path: first.StaticDir, id: first.Id };
  } catch (error) {
    throw new KfdError('E_HOST', `podman: unexpected output for container ${name}`, {
      cause: error,
      hint: 'name the container\'s "userdata" folder instead',
    });
  }
}
