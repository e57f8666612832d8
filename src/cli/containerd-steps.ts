/** How checkpoint images of containerd are restored, as podman cannot: by `ctr`. */

import type { ContainerdImage } from '../archive/containerd-image.js';
import { KfdError, printable } from '../errors.js';
import type { ImageReference, Refusal } from './image-reference.js';

/** The tar file that is made of a folder. */
const madeArchive = 'image.tar';

/** A name that comes from an image becomes a part of a command line. */
const plainName = /^[a-zA-Z0-9][\w./:@-]*$/;
const orWord = (name: string | undefined, word: string) =>
  name !== undefined && plainName.test(name) ? name : word;

/**
 * The commands to type, one after the other. The last one restores. Without a plain name in the image there is a word
 * in capitals, as for what only the user knows. `name`: containerd's name of the image.
 */
export function stepsOf(
  { base, runtime, hasChanges }: ContainerdImage,
  reference: ImageReference | undefined,
  name: string | undefined,
): string[][] {
  const image = orWord(name, 'IMAGE');
  // Unpacked, it would be taken for an image with a root file system.
  const take = (file: string) => ['ctr', 'image', 'import', '--no-unpack', file];
  const restore =
    runtime === undefined
      ? ['ctr', 'run', '--detach', '--checkpoint', image, 'FLAGS', orWord(base, 'BASE'), 'NAME']
      : ['ctr', 'container', 'restore', '--live', ...(hasChanges ? ['--rw'] : []), 'NAME', image];
  switch (reference?.transport) {
    case 'oci':
      return [['tar', '-C', reference.path, '-cf', madeArchive, '.'], take(madeArchive), restore];
    case 'oci-archive':
      return [take(reference.path), restore];
    default:
      return [restore];
  }
}

/** Commands as one line for a shell. Whoever sends an archive chooses its name, and somebody pastes this line. */
export const asLine = (steps: readonly (readonly string[])[]) =>
  printable(steps.map((words) => words.map(quoted).join(' ')).join(' && '));

const quoted = (word: string) =>
  /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** Refuses the image `shown`: what the user has named. The refusal throws E_USAGE. */
export function refuseContainerd(shown: string, reason: string): Refusal {
  return (image, reference, name) => {
    throw new KfdError('E_USAGE', `${shown}: a checkpoint image of containerd: ${reason}`, {
      hint: `containerd restores it: ${asLine(stepsOf(image, reference, name))}`,
    });
  };
}
