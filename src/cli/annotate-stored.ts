/** Adds annotations to an image that podman stores, by podman's own means. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { hasAll } from '../archive/image-annotations.js';
import { KfdError, printable } from '../errors.js';
import type { Run } from '../os/exec.js';
import { inWorkFolder } from '../os/temporary.js';

/** Other commands may use podman's storage; the storage driver vfs copies the contents. */
const podmanMs = 600_000;

const inspected = v.pipe(
  v.array(
    v.object({
      Id: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
      RepoTags: v.nullish(v.array(v.string()), []),
      Annotations: v.nullish(v.record(v.string(), v.string()), {}),
    }),
  ),
  v.length(1),
);

/**
 * Adds `wanted`, whose values need no quoting in a Containerfile, as annotations and as labels. Other annotations stay.
 * Returns whether anything was to be changed: then all names of the image lead to the new one, whose layers are the
 * same. Throws E_HOST, E_IO, E_NOT_FOUND, E_TIMEOUT, and E_USAGE for an image without a name.
 */
export async function annotateStored(
  image: string,
  wanted: Readonly<Record<string, string>>,
  run: Run,
): Promise<boolean> {
  const { Id: id, RepoTags: names, Annotations: present } = await describedImage(image, run);
  if (hasAll(present, wanted)) return false;
  if (names.length === 0) {
    throw new KfdError('E_USAGE', `${image}: has no name that the new image could get`, {
      hint: 'give it one with "podman tag"',
    });
  }
  await inWorkFolder('/var/tmp', async (folder) => {
    const pairs = Object.entries(wanted);
    // One step that changes the configuration alone: podman adds a layer without a step, and keeps an image for each.
    const labels = pairs.map(([key, value]) => ` "${key}"="${value}"`);
    const file = join(folder, 'Containerfile');
    await writeFile(file, `FROM ${id}\nLABEL${labels.join('')}\n`);
    const annotations = pairs.flatMap(([key, value]) => ['--annotation', `${key}=${value}`]);
    const tags = names.flatMap((name) => ['--tag', name]);
    const words = ['build', '--quiet', '--format', 'oci', '--pull=never', '--file', file];
    await podman([...words, ...annotations, ...tags, folder], image, run);
  });
  // It has no name any more, and would keep the layers when the new one is removed. podman keeps it while it is used.
  await run('podman', ['image', 'rm', id], { timeoutMs: podmanMs });
  return true;
}

/** What podman says of an image. Throws E_HOST, E_IO, E_NOT_FOUND, E_TIMEOUT. */
export async function describedImage(image: string, run: Run) {
  const printed = await podman(['image', 'inspect', image], image, run, 'E_NOT_FOUND');
  try {
    const [found] = v.parse(inspected, JSON.parse(printed));
    return found as NonNullable<typeof found>;
  } catch (error) {
    throw new KfdError('E_HOST', `podman: unexpected output for image ${image}`, { cause: error });
  }
}

/** Returns what podman printed. A status other than 0 becomes an error with `code`. */
async function podman(
  words: readonly string[],
  image: string,
  run: Run,
  code: 'E_NOT_FOUND' | 'E_IO' = 'E_IO',
): Promise<string> {
  const found = await run('podman', words, { timeoutMs: podmanMs });
  if (found === undefined) {
    throw new KfdError('E_HOST', `${image}: podman is missing`, { hint: 'install podman' });
  }
  const { status, stdout, stderr } = found;
  if (status === undefined) {
    throw new KfdError('E_TIMEOUT', `podman: did not answer for image ${image} in 600 s`, {
      hint: 'wait for the other command that uses this image',
    });
  }
  if (status === 0) return stdout;
  const reason = printable(stderr.trim().split('\n').at(-1) ?? '');
  throw new KfdError(code, `${image}: podman ${words[0]}: ${reason}`, {
    hint: '"podman images" lists the images of this host',
  });
}
