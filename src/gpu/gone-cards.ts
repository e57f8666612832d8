/**
 * Card nodes that the container cannot keep, because their numbers would be those of another GPU here, or of none:
 * - the GPU that it gets has no card node;
 * - no process could see the GPU of the node, so that no GPU of this host takes its place.
 */

import type { Manifest, ManifestGpu } from '../manifest/schema.js';
import { archiveCardMinor, archiveMinor } from './archive-minor.js';
import { numbers, rewritingHint } from './device-numbers.js';
import type { DeviceNumber, Host } from './host.js';
import { gpuName, type Mismatch } from './mismatch.js';
import type { GpuPair } from './pair.js';

/** A card node of the archive that must not be in the restored container. */
export interface GoneCard {
  readonly what: string;
  readonly from: DeviceNumber;
  /** Ordinal of the recorded GPU. */
  readonly gpu: number;
}

/** The card nodes that go. Those of pairs with a card node here move instead. */
export function goneCards(manifest: Manifest, host: Host, pairs: readonly GpuPair[]): GoneCard[] {
  const cards = manifest.gpus.flatMap((recorded): GoneCard[] => {
    const minor = archiveCardMinor(manifest, recorded);
    if (minor === undefined || keepsCard(recorded, minor, host, pairs)) return [];
    const from = { major: drmMajor(manifest, recorded), minor };
    return [{ what: `card node of ${gpuName(recorded)}`, from, gpu: recorded.ordinal }];
  });
  // A number that a pair's card node has in the archive is moved, and not taken away.
  const moved = new Set(pairs.map(({ recorded }) => archiveCardMinor(manifest, recorded)));
  return cards.filter(({ from, gpu }) => !moved.has(from.minor) || isPaired(gpu, pairs));
}

const isPaired = (gpu: number, pairs: readonly GpuPair[]) =>
  pairs.some(({ recorded }) => recorded.ordinal === gpu);

function keepsCard(
  recorded: ManifestGpu,
  minor: number,
  host: Host,
  pairs: readonly GpuPair[],
): boolean {
  const pair = pairs.find((one) => one.recorded.ordinal === recorded.ordinal);
  if (pair !== undefined) return pair.present.cardDevice !== undefined;
  // The same GPU of the same host, as far as can be seen.
  return host.gpus.some(
    ({ record, cardDevice }) =>
      cardDevice?.minor === minor &&
      record.gpu_id === recorded.gpu_id &&
      record.location === recorded.location,
  );
}

/** That of its render node, as all DRM nodes have one major. */
function drmMajor(manifest: Manifest, recorded: ManifestGpu): number {
  const minor = archiveMinor(manifest, recorded);
  const nodes = manifest.devices.render;
  return (nodes.find((one) => one.minor === minor) ?? nodes[0])?.major ?? 226;
}

/** As a reason against a restore of the archive as it is. */
export function goneMismatch({ what, from, gpu }: GoneCard): Mismatch {
  return {
    code: 'E_DEVICE_MOVED',
    message: `${what}: ${numbers(from)} in the archive is another GPU's here, or none's`,
    hint: rewritingHint,
    gpu,
  };
}
