/** The nodes of a recorded GPU in its archive. */

import type { Manifest, ManifestGpu } from '../manifest/schema.js';

/** Minor of a recorded GPU's render node in the archive. */
export function archiveMinor(
  { devices }: Manifest,
  { ordinal, render_minor }: ManifestGpu,
): number {
  return devices.assigned?.find(({ gpu }) => gpu === ordinal)?.render_minor ?? render_minor;
}

/** Minor of its card node in the archive; undefined when the container has none. */
export function archiveCardMinor(
  { devices }: Manifest,
  { ordinal, card_minor }: ManifestGpu,
): number | undefined {
  return devices.assigned?.find(({ gpu }) => gpu === ordinal)?.card_minor ?? card_minor;
}
