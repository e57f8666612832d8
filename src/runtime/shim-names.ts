/** Names by which others find our shim and its images. The shim loads nothing else with them. */

/** Names the image directory of a restore. Behind a slash, the name of one container of a pod may follow. */
export const restoreAnnotation = 'io.kfd-checkpoint.restore-from';

/** A file in every bundle that our shim has started. It holds the path of its socket. */
export const bundleFile = 'kfd-shim';

/** A file in a bundle with a GPU: the configuration that CRIU reads for this container. */
export const criuConfigFile = 'kfd-criu.conf';

/**
 * A field of ours in a CheckpointTaskRequest, which other shims skip: not 0 where the image is to have no more memory
 * than what differs from `parentImage`, beside it.
 */
export const hasParentField = 100;
export const parentImage = '../previous';

/** RuncRoot of containerd's stock shim, when the options do not name another one. */
export const usualRuncRoot = '/run/containerd/runc';

/** A file in a bundle whose restore has an image of its own: the path of that folder. The shim's script reads it. */
export const imageCopyFile = 'kfd-shim-image';

/** A file beside that socket: pid and start time of our shim, then pid, start time and socket of the stock shim. */
export function processesFile(socket: string): string {
  return `${socket}.processes`;
}
