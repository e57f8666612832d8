/** Reads the bundle's config.json, and adds an annotation for a container with a GPU. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { libdir, loadedPlugin } from '../../src/criu/state-folder.js';
import { readTextIfAny, replaceFile } from '../../src/os/files.js';
import { withMember } from '../../src/runtime/json-text.js';

/** Its value is an image directory. The first start restores the container from there. */
export const restoreAnnotation = 'io.kfd-checkpoint.restore-from';
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
  const config = join(bundle, 'kfd-criu.conf');
  const before = (await readTextIfAny(hostConfig)) ?? '';
  const root = cgroup === undefined ? '' : `cgroup-root ${cgroup}\n`;
  await replaceFile(config, `${before}\nlibdir ${libdir}\n${root}`);
  const annotations = { ...spec.annotations, [criuConfigAnnotation]: config };
  await replaceFile(spec.path, withMember(spec.text, 'annotations', annotations));
}
