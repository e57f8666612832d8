/** The render node of a recorded GPU, as its archive has it now. */

import type { Manifest, ManifestGpu } from '../manifest/schema.js';

/** Minor of the render node that stands for a recorded GPU in the archive. */
export function archiveMinor(
  { devices }: Manifest,
  { ordinal, render_minor }: ManifestGpu,
): number {
  return devices.assigned?.find(({ gpu }) => gpu === ordinal)?.render_minor ?? render_minor;
}
