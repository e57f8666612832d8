/** The target of `kfd-checkpoint restore`: an archive, or a container that was checkpointed in place. */

import { realpath, stat } from 'node:fs/promises';
import * as v from 'valibot';
import { isMissing, KfdError } from '../errors.js';
import type { Run } from '../os/exec.js';

export type RestoreTarget =
  | { readonly kind: 'archive'; readonly path: string }
  /** `path`: podman's bundle, which contains `checkpoint`. */
  | { readonly kind: 'container'; readonly path: string; readonly id: string };

const inspected = v.pipe(
  v.array(v.object({ Id: v.string(), StaticDir: v.string() })),
  v.minLength(1),
);

/** `name`: a path, or the name of a podman container. Throws E_NOT_FOUND, E_USAGE, E_HOST. */
export async function restoreTarget(name: string, run: Run): Promise<RestoreTarget> {
  try {
    if (!(await stat(name)).isDirectory()) return { kind: 'archive', path: name };
    const path = await realpath(name);
    const id = /\/([0-9a-f]{64})\/userdata$/.exec(path)?.[1];
    if (id !== undefined) return { kind: 'container', path, id };
    throw new KfdError('E_USAGE', `${name}: is not the bundle of a podman container`, {
      hint: 'name an archive, or a container that was checkpointed in place',
    });
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  return container(name, run);
}

async function container(name: string, run: Run): Promise<RestoreTarget> {
  const missing = new KfdError('E_NOT_FOUND', `${name}: neither a file nor a container`);
  if (!/^[a-zA-Z0-9][\w.-]*$/.test(name)) throw missing;
  const found = await run('podman', ['container', 'inspect', name]);
  if (found?.status !== 0) throw missing;
  try {
    const [first] = v.parse(inspected, JSON.parse(found.stdout));
    if (first !== undefined) return { kind: 'container', path: first.StaticDir, id: first.Id };
  } catch (error) {
    throw new KfdError('E_HOST', `podman: unexpected output for container ${name}`, {
      cause: error,
      hint: 'name the container\'s "userdata" folder instead',
    });
  }
  throw missing;
}
