/**
 * The annotations that the precreate hook adds to a spec. They stay with the container and its archive, so that an
 * archive shows its GPUs without being unpacked.
 */

import * as v from 'valibot';
import type { DeviceNumber, Host, HostGpu } from '../gpu/host.js';
import { gfxName } from '../gpu/properties.js';
import type { Cdi } from './cdi.js';
import { cdiNameOf } from './cdi-gpus.js';
import { withMember } from './json-text.js';

export const annotationPrefix = 'io.kfd-checkpoint.';

const specSchema = v.object({
  annotations: v.optional(v.record(v.string(), v.string()), {}),
  linux: v.object({
    devices: v.array(
      v.object({ path: v.string(), major: v.optional(v.number()), minor: v.optional(v.number()) }),
    ),
  }),
});

type Spec = v.InferOutput<typeof specSchema>;

/**
 * The spec with our annotations; other bytes are kept. A spec whose devices do not include
 * `/dev/kfd` comes back unchanged. Throws on anything unexpected: the caller prints the original.
 */
export function annotateSpec(text: string, host: Host, cdi: Cdi, version: string): string {
  const spec = v.parse(specSchema, JSON.parse(text));
  const kfd = spec.linux.devices.find((device) => device.path === '/dev/kfd');
  if (kfd === undefined) return text;
  const others = Object.entries(spec.annotations).filter(
    ([key]) => !key.startsWith(annotationPrefix),
  );
  return withMember(text, 'annotations', {
    ...Object.fromEntries(others),
    [`${annotationPrefix}version`]: version,
    [`${annotationPrefix}kernel`]: host.kernelRelease,
    ...deviceAnnotations(
      { major: kfd.major ?? 0, minor: kfd.minor ?? 0 },
      gpusOf(spec, host),
      (gpu) => cdiNameOf(gpu, cdi, host),
    ),
  });
}

/**
 * The annotations about a container's devices. They change when its devices change. `cdiNameOf`: the GPU's name in the
 * host's CDI specifications.
 */
export function deviceAnnotations(
  kfd: DeviceNumber,
  gpus: readonly HostGpu[],
  cdiNameOf: (gpu: HostGpu) => string | undefined,
): Record<string, string> {
  const described = gpus.map((gpu) => {
    const { record, renderDevice } = gpu;
    const cdi = cdiNameOf(gpu);
    return {
      gpu_id: record.gpu_id,
      gfx: gfxName(record.gfx_target_version),
      render_minor: record.render_minor,
      ...(renderDevice && { device: `${renderDevice.major}:${renderDevice.minor}` }),
      ...(cdi !== undefined && { cdi }),
    };
  });
  return {
    [`${annotationPrefix}kfd-device`]: `${kfd.major}:${kfd.minor}`,
    [`${annotationPrefix}gpus`]: JSON.stringify(described),
  };
}

/** The GPUs whose render nodes the container gets. */
function gpusOf({ linux }: Spec, host: Host): HostGpu[] {
  const minors = new Set<number | undefined>(
    linux.devices
      .filter((device) => device.path.startsWith('/dev/dri/render'))
      .map((device) => device.minor),
  );
  return host.gpus.filter(({ record }) => minors.has(record.render_minor));
}
