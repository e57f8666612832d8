/** How a kubelet's archive is restored, as podman cannot: by a pod. containerd and CRI-O have different ways. */

import type { CheckpointContents } from '../archive/contents.js';
import { KfdError } from '../errors.js';
import type { Mismatch } from '../gpu/mismatch.js';
import { restoreAnnotation } from '../runtime/shim-names.js';
import { asLine } from './containerd-steps.js';

type Engine = 'containerd' | 'CRI-O';

/**
 * The kind of a container is in the spec of every container of a pod (containerd: internal/cri/annotations/
 * annotations.go, CRI-O: internal/annotations/internal.go).
 */
const podContainer: Readonly<Record<Engine, string>> = {
  containerd: 'io.kubernetes.cri.container-type',
  'CRI-O': 'io.kubernetes.cri-o.ContainerType',
};

/** The engine that has written it for a kubelet, as an archive or as an image of one. Undefined: nobody has. */
export function kubeletEngine({ kind, container }: CheckpointContents): Engine | undefined {
  const { engine, annotations = {} } = container ?? {};
  if (kind === 'containerd' || (engine !== 'containerd' && engine !== 'CRI-O')) return undefined;
  return annotations[podContainer[engine]] === undefined ? undefined : engine;
}

/** The engine that restores it, where podman cannot. */
export const restoringEngine = (contents: CheckpointContents): Engine | undefined =>
  contents.kind === 'containerd' ? 'containerd' : kubeletEngine(contents);

/** The user chooses the folder: it has to stay until the pod runs. */
const folder = 'FOLDER';
/** The user chooses the name: the pod's node must be able to pull it. */
const image = 'IMAGE';
/** Of buildah's working container. */
const work = 'checkpoint-work';
/** By it CRI-O knows an image for a checkpoint (CRI-O: server/container_restore.go). */
const checkpointName = 'io.kubernetes.cri-o.annotations.checkpoint.name';

/** What a pod needs. `annotation`: of the pod, and of no other name; `image`: of its container. */
export interface PodNeeds {
  readonly annotation?: string;
  readonly image?: string;
}

/** What comes before the pod, one command after the other. `path`: of an archive. */
export function podSteps(engine: Engine, path: string, name: string | undefined): string[][] {
  if (engine === 'CRI-O') {
    // It comes from the archive, and somebody pastes it.
    const plain = name !== undefined && /^[\w.-]{1,253}$/.test(name) ? name : 'NAME';
    const label = `${checkpointName}=${plain}`;
    return [
      ['buildah', 'from', '--name', work, 'scratch'],
      ['buildah', 'add', work, path, '/'],
      ['buildah', 'config', `--annotation=${label}`, work],
      ['buildah', 'commit', '--rm', work, image],
    ];
  }
  return [
    ['mkdir', folder],
    // The kubelet's names have a time, whose colons tar takes for a host's name.
    ['tar', '--force-local', '-C', folder, '-xf', path, 'checkpoint'],
  ];
}

/** docs/kubernetes.md. shim/intercept/bundle-spec.ts has the annotation's name, too. */
export function podNeeds(engine: Engine): PodNeeds {
  return engine === 'CRI-O'
    ? { image }
    : { annotation: `${restoreAnnotation}=${folder}/checkpoint` };
}

export function podInWords({ annotation, image }: PodNeeds): string {
  return annotation === undefined
    ? `a pod whose container has the image ${image}`
    : `a pod with the annotation ${annotation}`;
}

/**
 * CRI-O makes the container of a checkpoint without the devices of the pod (server/container_restore.go:
 * CRImportCheckpoint, August 2026). CRIU makes the nodes that the checkpoint has in its /dev.
 */
export const crioRisk: Mismatch = {
  code: 'E_UNSUPPORTED_STATE',
  message:
    'CRI-O gives a restored container no devices of its pod: it goes on with the GPU of the checkpoint, ' +
    'whatever the pod was allotted, and opens no GPU anew',
  hint: "name the nodes in the pod's annotation io.kubernetes.cri-o.Devices (docs/kubernetes.md)",
};

/** `path`: of an archive, undefined for an image. Throws E_USAGE for what podman cannot restore. */
export function assertNotOfKubelet(
  shown: string,
  path: string | undefined,
  contents: CheckpointContents,
): void {
  const engine = kubeletEngine(contents);
  if (engine === undefined) return;
  const first =
    path === undefined
      ? engine === 'CRI-O'
        ? 'push the image'
        : 'unpack the archive that the image was made of'
      : asLine(podSteps(engine, path, contents.container?.name));
  throw new KfdError('E_USAGE', `${shown}: of a kubelet: podman cannot restore it`, {
    hint: `${first}, and start ${podInWords(podNeeds(engine))}`,
  });
}

/** A reason against a restore, whose next step holds for the engine. */
export function forEngine(engine: Engine, reason: Mismatch): Mismatch {
  if (reason.code !== 'E_DEVICE_MOVED') return reason;
  const hint = `restore where the numbers are the same: ${engine} restores an image as it is`;
  return { ...reason, hint };
}
