/**
 * Places for SDMA queues, before a task exists: no other process may have them, and of restores at the same time one
 * alone goes on. src/gpu/sdma-slot.ts says what they are.
 */

import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ByteLocks } from '../../addon/locks.js';
import { KfdError } from '../../errors.js';
import { type Host, readUsers } from '../../gpu/host.js';
import type { Mismatch } from '../../gpu/mismatch.js';
import type { GpuPair } from '../../gpu/pair.js';
import { maxSlots } from '../../gpu/sdma-slot.js';
import { type SdmaWants, slotMisfits } from '../../gpu/sdma-wants.js';
import { fromNative, native } from '../../native.js';

/** What an image needs, and where. */
export interface SlotPlan {
  /** With all its GPUs: what processes do on the others counts, too. */
  readonly host: Host;
  readonly pairs: readonly GpuPair[];
  /** undefined: not known. Then only RESTORE itself tells. */
  readonly wants: SdmaWants | undefined;
  /** Folder of `/sys` and `/run`. */
  readonly root: string;
}

/**
 * Locks on this file keep places from other restores. It is never removed, and is outside the folder of sessions.
 * packaging/purge.sh has it, too.
 */
const slotsFile = 'run/kfd-checkpoint.slots';

export interface SlotWait {
  readonly pollMs: number;
  /** As for VRAM (src/gpu/wait-vram.ts): a process that has just ended, or a session, gives its places back by then. */
  readonly longestMs: number;
}

const usualWait: SlotWait = { pollMs: 100, longestMs: 1000 };

/** The pairs with their users as of now. Throws E_SDMA_SLOT when other processes have needed places. */
export async function pairsWithRoom(
  plan: SlotPlan,
  wait: SlotWait = usualWait,
): Promise<readonly GpuPair[]> {
  return settled(wait, async () => {
    const pairs = await withUsers(plan);
    const mismatches = pairs.flatMap(({ recorded, present }) =>
      slotMisfits(recorded, present, plan.wants),
    );
    return { pairs, mismatches };
  });
}

/**
 * Keeps the places from other restores, until the locks are closed or the process ends; undefined: none is needed.
 * Whoever has them looks once more for processes: a restore that had them before may have ended well. Throws
 * E_SDMA_SLOT, E_IO.
 */
export async function claimSlots(
  plan: SlotPlan,
  wait: SlotWait = usualWait,
): Promise<ByteLocks | undefined> {
  const places = placesOf(plan);
  if (places.length === 0) return undefined;
  const path = join(plan.root, slotsFile);
  await mkdir(dirname(path), { recursive: true });
  let locks: ByteLocks | undefined;
  try {
    const own = new (native().ByteLocks)(path);
    locks = own;
    const take = async () => ({ pairs: [], mismatches: own.take(places) ? [] : [claimed(plan)] });
    await settled(wait, take);
    await pairsWithRoom(plan, wait);
    return own;
  } catch (error) {
    locks?.close();
    throw fromNative(error, path);
  }
}

interface Look {
  readonly pairs: readonly GpuPair[];
  readonly mismatches: readonly Mismatch[];
}

/** `look` until it finds no mismatch. Throws the last ones when there are some for too long. */
async function settled(
  { pollMs, longestMs }: SlotWait,
  look: () => Promise<Look>,
): Promise<readonly GpuPair[]> {
  const began = performance.now();
  for (;;) {
    const { pairs, mismatches } = await look();
    const [first] = mismatches;
    if (first === undefined) return pairs;
    if (performance.now() - began >= longestMs) {
      throw new KfdError(first.code, mismatches.map(({ message }) => message).join('; '), {
        hint: first.hint,
        details: { mismatches },
      });
    }
    await delay(pollMs);
  }
}

async function withUsers({ host, pairs, root }: SlotPlan): Promise<readonly GpuPair[]> {
  const users = await readUsers(root, host.gpus);
  return pairs.map(({ recorded, present }) => ({
    recorded,
    present: { ...present, sdmaUsers: users.get(present.record.gpu_id) ?? [] },
  }));
}

/** Bytes of the file, ascending: one for each place of each GPU. A gpu_id has 32 bits. */
function placesOf({ pairs, wants }: SlotPlan): number[] {
  const places = pairs.flatMap(({ recorded, present }) =>
    (wants?.get(recorded.ordinal) ?? [])
      .filter(({ id }) => id < maxSlots)
      .map(({ link, id }) => {
        const row = present.record.gpu_id * 2 + (link === 'pcie' ? 0 : 1);
        return row * maxSlots + id;
      }),
  );
  return [...new Set(places)].sort((a, b) => a - b);
}

function claimed({ pairs, wants }: SlotPlan): Mismatch {
  const gpus = pairs
    .filter(({ recorded }) => wants?.has(recorded.ordinal) === true)
    .map(({ present: { record } }) => `gpu ${record.gpu_id} (renderD${record.render_minor})`);
  return {
    code: 'E_SDMA_SLOT',
    message: `another restore is under way here, and needs the same SDMA queues: on ${gpus.join(' or ')}`,
    hint: 'restore on another GPU with gpu_map, or after that restore has failed or its container has ended',
  };
}
