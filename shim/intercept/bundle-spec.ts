/** The bundle's config.json: what it says to us, and what is added to it for a container with a GPU. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { libdir, loadedPlugin } from '../../src/criu/state-folder.js';
import { readTextIfAny, replaceFile } from '../../src/os/files.js';
import { withMember } from '../../src/runtime/json-text.js';

/** Names an image directory: the container is restored from it at its first start. */
export const restoreAnnotation = 'io.kfd-checkpoint.restore-from';
/** Of runc and crun: a configuration file for CRIU in the place of the host's for them. */
export const criuConfigAnnotation = 'org.criu.config';
/** What runc has CRIU read where there is no annotation. */
const hostCriuConfig = '/etc/criu/runc.conf';

export interface BundleSpec {
  readonly path: string;
  readonly text: string;
  readonly annotations: Readonly<Record<string, unknown>>;
  readonly hasGpu: boolean;
  /** As the spec has it. */
  readonly cgroupsPath: unknown;
}

/** Throws Node's error, or SyntaxError when it is no JSON. */
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
 * Has CRIU load our plugin for this container, whatever the host's configuration says. An annotation that is there stays, and
 * nothing is written when `plugin`, where `configure` puts it, is missing: CRIU fails when its folder is. `cgroup`: where a
 * container that is restored belongs. `hostConfig`: settings that the container would have without us, and keeps. Throws
 * Node's error.
 */
export async function useOurPlugin(
  bundle: string,
  spec: BundleSpec,
  cgroup: string | undefined,
  { plugin = loadedPlugin, hostConfig = hostCriuConfig } = {},
): Promise<void> {
  if (criuConfigAnnotation in spec.annotations || !existsSync(plugin)) return;
  const config = join(bundle, 'kfd-criu.conf');
  const before = (await readTextIfAny(hostConfig)) ?? '';
  const root = cgroup === undefined ? '' : `cgroup-root ${cgroup}\n`;
  await replaceFile(config, `${before}\nlibdir ${libdir}\n${root}`);
  const annotations = { ...spec.annotations, [criuConfigAnnotation]: config };
  await replaceFile(spec.path, withMember(spec.text, 'annotations', annotations));
}
