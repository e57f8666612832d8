/** The annotations of a checkpoint image that tell which GPUs it needs. docs/image-format.md, "Annotations". */

import { gfxName } from '../gpu/properties.js';
import type { Manifest } from '../manifest/schema.js';

/** In the family that checkpointctl gives to checkpoint images, which has no key for GPUs. */
export const gpuAnnotationPrefix = 'org.criu.checkpoint.gpu.';

/** Values have letters, digits and a few marks only, because others build commands of them. */
export function gpuAnnotations({
  gpus,
  host,
}: Pick<Manifest, 'gpus' | 'host'>): Readonly<Record<string, string>> {
  const models = new Set(gpus.map(({ gfx_target_version: version }) => gfxName(version)));
  const { version = host.kernel_release, srcversion } = host.driver ?? {};
  const driver = ['amdgpu', version, ...(srcversion === undefined ? [] : [srcversion])];
  return {
    [`${gpuAnnotationPrefix}vendor`]: 'amd',
    [`${gpuAnnotationPrefix}model`]: [...models].join(','),
    [`${gpuAnnotationPrefix}count`]: String(gpus.length),
    [`${gpuAnnotationPrefix}driver`]: driver.map(plain).join(' '),
  };
}

const plain = (word: string) => word.replace(/[^\w.+~:-]/g, '?');

/** Whether all of `wanted` are among `present`, with these values. */
export function hasAll(
  present: Readonly<Record<string, string>>,
  wanted: Readonly<Record<string, string>>,
): boolean {
  return Object.entries(wanted).every(
    ([key, value]) => Object.hasOwn(present, key) && present[key] === value,
  );
}
