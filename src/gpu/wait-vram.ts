/**
 * Waiting for what a program which has just ended still holds. Its VRAM and its queues go when the last file that
 * refers to them is closed. VRAM is wiped then (kfd_process.c:kfd_process_wq_release, amdgpu_object.c:
 * amdgpu_bo_release_notify@6.12.117).
 */

import { setTimeout } from 'node:timers/promises';
import type { Placement } from './compare.js';
import type { Host } from './host.js';
import type { Mismatch } from './mismatch.js';

export interface VramWait {
  readonly pollMs: number;
  /** The wait ends when nothing has become free for this long. */
  readonly idleMs: number;
  readonly longestMs: number;
}

const usualWait: VramWait = { pollMs: 200, idleMs: 1000, longestMs: 10_000 };

/**
 * The host and the place of an image on it. Looks again while free VRAM and places of SDMA queues are all that is
 * missing, and more of them become free. `look`: reads the host. `place`: compares the image with it.
 */
export async function placeWhenFree(
  look: () => Promise<Host>,
  place: (host: Host) => Placement,
  { pollMs, idleMs, longestMs }: VramWait = usualWait,
): Promise<{ host: Host; placement: Placement }> {
  const began = performance.now();
  let lastGain = began;
  let host = await look();
  let placement = place(host);
  const isLate = (now: number) => now - lastGain >= idleMs || now - began >= longestMs;
  while (onlyHeld(placement) && !isLate(performance.now())) {
    await setTimeout(pollMs);
    const next = await look();
    const hasGained = freeVram(next) > freeVram(host) || usersOf(next) < usersOf(host);
    if (hasGained) lastGain = performance.now();
    host = next;
    placement = place(host);
  }
  return { host, placement };
}

function onlyHeld({ mismatches }: Placement): boolean {
  const isHeld = ({ code }: Mismatch) => code === 'E_VRAM' || code === 'E_SDMA_SLOT';
  return mismatches.length > 0 && mismatches.every(isHeld);
}

const usersOf = ({ gpus }: Host): number =>
  gpus.reduce((sum, { sdmaUsers }) => sum + sdmaUsers.length, 0);

function freeVram({ gpus }: Host): number {
  return gpus.reduce((sum, { vramFreeBytes = 0 }) => sum + vramFreeBytes, 0);
}
