/** How checkpoints of containerd are restored, as podman cannot: images by `ctr`, a kubelet's archive by a pod. */

import type { ContainerdImage } from '../archive/containerd-image.js';
import type { CheckpointContents } from '../archive/contents.js';
import { KfdError, printable } from '../errors.js';
import type { Mismatch } from '../gpu/mismatch.js';
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

/** Every container of a pod has it in its spec (containerd: internal/cri/annotations/annotations.go). */
const podContainer = 'io.kubernetes.cri.container-type';

/** Whether containerd's CRI has written it for the kubelet, or it is an image that was made of such an archive. */
export const isOfKubelet = ({ kind, container }: CheckpointContents) =>
  kind !== 'containerd' &&
  container?.engine === 'containerd' &&
  container.annotations[podContainer] !== undefined;

/** Whether containerd restores it, and podman cannot. */
export const isOfContainerd = (contents: CheckpointContents) =>
  contents.kind === 'containerd' || isOfKubelet(contents);

/** The user chooses the folder: it has to stay until the pod runs. */
const folder = 'FOLDER';

export const unpackSteps = (path: string): string[][] => [
  ['mkdir', folder],
  // The kubelet's names have a time, whose colons tar takes for a host's name.
  ['tar', '--force-local', '-C', folder, '-xf', path, 'checkpoint'],
];

/** What the container of a pod needs then: docs/kubernetes.md. shim/intercept/bundle-spec.ts has its name, too. */
export const podAnnotation = `io.kfd-checkpoint.restore-from=${folder}/checkpoint`;

/** `path`: of an archive, undefined for an image. Throws E_USAGE for what podman cannot restore. */
export function assertNotOfKubelet(
  shown: string,
  path: string | undefined,
  contents: CheckpointContents,
): void {
  if (!isOfKubelet(contents)) return;
  const unpack =
    path === undefined
      ? 'unpack the archive that the image was made of'
      : asLine(unpackSteps(path));
  throw new KfdError('E_USAGE', `${shown}: of a kubelet: podman cannot restore it`, {
    hint: `${unpack}, and give the container of a pod the annotation ${podAnnotation}`,
  });
}

/** Refuses the image `shown`: what the user has named. The refusal throws E_USAGE. */
export function refuseContainerd(shown: string, reason: string): Refusal {
  return (image, reference, name) => {
    throw new KfdError('E_USAGE', `${shown}: a checkpoint image of containerd: ${reason}`, {
      hint: `containerd restores it: ${asLine(stepsOf(image, reference, name))}`,
    });
  };
}

/** A reason against a restore, whose next step holds for containerd. */
export function forContainerd(reason: Mismatch): Mismatch {
  if (reason.code !== 'E_DEVICE_MOVED') return reason;
  const hint = 'restore where the numbers are the same: containerd restores an image as it is';
  return { ...reason, hint };
}
