/** Reads the bundle's config.json, and adds an annotation for a container with a GPU. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { libdir, loadedPlugin } from '../../src/criu/state-folder.js';
import { readTextIfAny, replaceFile } from '../../src/os/files.js';
import { withMember } from '../../src/runtime/json-text.js';
import { criuConfigFile, restoreAnnotation } from '../../src/runtime/shim-names.js';

/** Of every container that containerd runs for a kubelet (containerd: internal/cri/annotations/annotations.go). */
const podPart = {
  type: 'io.kubernetes.cri.container-type',
  name: 'io.kubernetes.cri.container-name',
  sandbox: 'sandbox',
} as const;
/** Annotation of runc and crun. Its value is a configuration file that CRIU reads instead of the host's. */
export const criuConfigAnnotation = 'org.criu.config';
/** The file that runc gives CRIU when there is no annotation. */
const hostCriuConfig = '/etc/criu/runc.conf';

/** Where the plugin is, and the configuration that CRIU would read without us. */
export interface Places {
  readonly plugin?: string;
  readonly hostConfig?: string;
  /** The run folder. */
  readonly run?: string;
}

export interface BundleSpec {
  readonly path: string;
  readonly text: string;
  readonly annotations: Readonly<Record<string, unknown>>;
  readonly hasGpu: boolean;
  /** Unchanged value of `linux.cgroupsPath`. */
  readonly cgroupsPath: unknown;
}

/** Throws Node's error, or SyntaxError when the file is not JSON. */
export function readBundleSpec(bundle: string): BundleSpec {
  const path = join(bundle, 'config.json');
  const text = readFileSync(path, 'utf8');
  const spec: unknown = JSON.parse(text);
  const annotations = isObject(spec) && spec['annotations'];
  const linux = isObject(spec) && spec['linux'];
  return {
    path,
    text,
    annotations: isObject(annotations) ? annotations : {},
    cgroupsPath: isObject(linux) ? linux['cgroupsPath'] : undefined,
    hasGpu: isObject(linux) && Array.isArray(linux['devices']) && linux['devices'].some(isGpu),
  };
}

/** Whether it is the container that holds the namespaces of a pod. It has the pod's annotations. */
export function isSandbox({ annotations }: BundleSpec): boolean {
  return annotations[podPart.type] === podPart.sandbox;
}

/** Whether an annotation names an image for this container, or for one of its pod. */
export function namesImage({ annotations }: BundleSpec): boolean {
  return Object.keys(annotations).some(
    (key) => key === restoreAnnotation || key.startsWith(`${restoreAnnotation}/`),
  );
}

/**
 * The image directory that an annotation names. A pod's annotation reaches its sandbox, which is never restored, and
 * each container: a name behind a slash means one of them, as in `io.kfd-checkpoint.restore-from/trainer`.
 */
export function restoreImage(spec: BundleSpec): string | undefined {
  if (isSandbox(spec)) return undefined;
  const { annotations } = spec;
  const name = annotations[podPart.name];
  const own = `${restoreAnnotation}/${name}`;
  const isNamed = typeof name === 'string' && name !== '' && Object.hasOwn(annotations, own);
  const image = annotations[isNamed ? own : restoreAnnotation];
  return typeof image === 'string' && image !== '' ? image : undefined;
}

function isGpu(device: unknown): boolean {
  const path = isObject(device) ? device['path'] : undefined;
  return typeof path === 'string' && (path === '/dev/kfd' || path.startsWith('/dev/dri/renderD'));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Makes CRIU load our plugin for this container, independent of the host's configuration. Throws
 * Node's error.
 * - An annotation of the user stays, and nothing is written.
 * - Nothing is written without `plugin`, which `configure` installs, because CRIU fails without its folder.
 * - `cgroup` is the cgroup of a container that is restored.
 * - `hostConfig` holds the settings that CRIU would have without us. They stay in effect.
 */
export async function useOurPlugin(
  bundle: string,
  spec: BundleSpec,
  cgroup: string | undefined,
  { plugin = loadedPlugin, hostConfig = hostCriuConfig }: Places = {},
): Promise<void> {
  if (criuConfigAnnotation in spec.annotations || !existsSync(plugin)) return;
  const config = join(bundle, criuConfigFile);
  const before = (await readTextIfAny(hostConfig)) ?? '';
  const root = cgroup === undefined ? '' : `cgroup-root ${cgroup}\n`;
  await replaceFile(config, `${before}\nlibdir ${libdir}\n${root}`);
  const annotations = { ...spec.annotations, [criuConfigAnnotation]: config };
  await replaceFile(spec.path, withMember(spec.text, 'annotations', annotations));
}
