/**
 * Waiting for VRAM that a program which has just ended still holds. Its buffers go when the last file that refers to
 * them is closed, and are wiped then (kfd_process.c:kfd_process_wq_release, amdgpu_object.c:amdgpu_bo_release_notify
 * @6.12.117).
 */

import { setTimeout } from 'node:timers/promises';
import type { Placement } from './compare.js';
import type { Host } from './host.js';

export interface VramWait {
  readonly pollMs: number;
  /** The wait ends when no VRAM has become free for this long. */
  readonly idleMs: number;
  readonly longestMs: number;
}

const usualWait: VramWait = { pollMs: 200, idleMs: 1000, longestMs: 10_000 };

/**
 * The host and the place of an image on it. Looks again while free VRAM is all that is missing, and more of it becomes
 * free. `look`: reads the host. `place`: compares the image with it.
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
  while (onlyVram(placement) && !isLate(performance.now())) {
    await setTimeout(pollMs);
    const next = await look();
    if (freeVram(next) > freeVram(host)) lastGain = performance.now();
    host = next;
    placement = place(host);
  }
  return { host, placement };
}

function onlyVram({ mismatches }: Placement): boolean {
  return mismatches.length > 0 && mismatches.every(({ code }) => code === 'E_VRAM');
}

function freeVram({ gpus }: Host): number {
  return gpus.reduce((sum, { vramFreeBytes = 0 }) => sum + vramFreeBytes, 0);
}
