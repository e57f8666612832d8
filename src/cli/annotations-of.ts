/** The annotations that a checkpoint image has, or would have got from podman. */

import type { ContainerFacts } from '../archive/container.js';
import { describedImage } from './annotate-stored.js';
import type { CommandContext } from './context.js';
import type { NamedCheckpoint } from './image-reference.js';

/** The family of podman's. The name of the runtime tells podman that an image is a checkpoint. */
const podmanPrefix = 'io.podman.annotations.checkpoint.';

/**
 * Those of the image, and of podman's family what `container` says. Throws E_HOST, E_NOT_FOUND, E_TIMEOUT.
 */
export async function annotationsOf(
  { reference, annotations }: NamedCheckpoint,
  container: ContainerFacts | undefined,
  { run }: CommandContext,
): Promise<Readonly<Record<string, string>>> {
  const known: Readonly<Record<string, string | undefined>> = {
    name: container?.name,
    rawImageName: container?.image,
    rootfsImageName: container?.image,
    'runtime.name': container?.runtime,
  };
  const own = Object.entries(known).flatMap(([key, value]) =>
    value === undefined ? [] : [[podmanPrefix + key, value] as const],
  );
  const stored =
    reference?.transport === 'containers-storage'
      ? (await describedImage(reference.image, run)).Annotations
      : {};
  return { ...Object.fromEntries(own), ...annotations, ...stored };
}
