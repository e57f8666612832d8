/**
 * Device numbers of an archive, compared with this host. CRIU restores `/dev`, and the container engine the device
 * rules, as they are in the archive. Other numbers need a rewritten archive.
 */

import type { Manifest } from '../manifest/schema.js';
import { archiveCardMinor, archiveMinor } from './archive-minor.js';
import type { DeviceNumber, Host } from './host.js';
import { gpuName, type Mismatch } from './mismatch.js';
import type { GpuPair } from './pair.js';

/** A device with another number, or another name of its node, on this host. */
export interface DeviceMove {
  /** "/dev/kfd", the recorded GPU, or its card node. */
  readonly what: string;
  readonly from: DeviceNumber;
  readonly to: DeviceNumber;
  /** Ordinal of the recorded GPU. */
  readonly gpu?: number;
  /** Name of the GPU's node without its minor; missing for /dev/kfd. */
  readonly node?: 'renderD' | 'card';
}

/** The changes of the archive that these pairs need. */
export function deviceMoves(
  manifest: Manifest,
  host: Host,
  pairs: readonly GpuPair[],
): DeviceMove[] {
  const { devices } = manifest;
  const moves: DeviceMove[] = [];
  const compare = (move: DeviceMove) => {
    if (move.from.major !== move.to.major || move.from.minor !== move.to.minor) moves.push(move);
  };
  if (host.kfdDevice !== undefined) {
    const from = { major: devices.kfd_major, minor: devices.kfd_minor };
    compare({ what: '/dev/kfd', from, to: host.kfdDevice });
  }
  for (const { recorded, present } of pairs) {
    const minor = archiveMinor(manifest, recorded);
    const node = devices.render.find((one) => one.minor === minor);
    if (node === undefined || present.renderDevice === undefined) continue;
    const from = { major: node.major, minor };
    compare({
      what: gpuName(recorded),
      from,
      to: present.renderDevice,
      gpu: recorded.ordinal,
      node: 'renderD',
    });
    const card = archiveCardMinor(manifest, recorded);
    if (card === undefined || present.cardDevice === undefined) continue;
    compare({
      what: `card node of ${gpuName(recorded)}`,
      from: { major: node.major, minor: card },
      to: present.cardDevice,
      gpu: recorded.ordinal,
      node: 'card',
    });
  }
  return moves;
}

/** What to do where the archive must change. */
export const rewritingHint =
  'run "kfd-checkpoint restore ARCHIVE [flags of podman container restore]", or with the container\'s name ' +
  'where it lies in place: it brings in the numbers of this host';

/** Moves as reasons against a restore of the archive as it is. */
export function movedMismatch({ what, from, to, gpu, node }: DeviceMove): Mismatch {
  const place = node === undefined ? `${numbers(to)}` : `${node}${to.minor} (${numbers(to)})`;
  return {
    code: 'E_DEVICE_MOVED',
    message: `${what}: is ${numbers(from)} in the archive, and ${place} here`,
    hint: rewritingHint,
    ...(gpu !== undefined && { gpu }),
  };
}

/** "major:minor". */
export function numbers({ major, minor }: DeviceNumber): string {
  return `${major}:${minor}`;
}
