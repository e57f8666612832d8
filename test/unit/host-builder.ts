/** Hosts with GPUs like the recorded ones, but for what a test bends. */

import { join } from 'node:path';
import { type Host, type HostGpu, readHost } from '../../src/gpu/host.js';
import { pairGpus } from '../../src/gpu/pair.js';
import type { SdmaUser } from '../../src/gpu/sdma-users.js';
import type { ManifestGpu } from '../../src/manifest/schema.js';
import { sampleManifest } from './manifest-sample.js';
import { fixtures } from './paths.js';

const twoGpus = await readHost({ root: join(fixtures, 'sysfs/two-gpus'), kfdVersion: '1.17' });

export type Bend = Partial<ManifestGpu> & {
  readonly free?: number;
  readonly sdma?: readonly SdmaUser[];
};

/** A host with the source's kernel and these GPUs, else like the recorded ones. */
export function hostWith(...bends: readonly Bend[]): Host {
  const gpus = bends.map(({ free, sdma, ...bend }, ordinal): HostGpu => {
    const minor = bend.render_minor ?? 140 + ordinal;
    return {
      record: {
        ...(sampleManifest().gpus[0] as ManifestGpu),
        ordinal,
        gpu_id: 1000 + ordinal,
        location: `0000:${(0x80 + ordinal).toString(16)}:00.0`,
        ...bend,
        render_minor: minor,
      },
      renderDevice: { major: 226, minor },
      vramFreeBytes: free ?? 2 ** 36,
      sdmaUsers: sdma ?? [],
    };
  });
  return { ...twoGpus, machine: 'x86_64', gpus };
}

/** Which recorded GPU gets which one of the host, by their ordinals. */
export const chosen = (host: Host, manifest = sampleManifest(), map = {}) =>
  pairGpus(manifest, host, map).pairs.map(
    ({ recorded, present }) => `${recorded.ordinal}>${present.record.ordinal}`,
  );
