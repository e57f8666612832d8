/** The render node of a recorded GPU in its archive. */

import type { Manifest, ManifestGpu } from '../manifest/schema.js';

/** Minor of a recorded GPU's render node in the archive. */
export function archiveMinor(
  { devices }: Manifest,
  { ordinal, render_minor }: ManifestGpu,
): number {
  return devices.assigned?.find(({ gpu }) => gpu === ordinal)?.render_minor ?? render_minor;
}
