/** Room for a migration on both hosts. Pure. */

import type { Mismatch } from '../../gpu/mismatch.js';
import type { Facts, Question } from './documents.js';
import type { Room } from './source-room.js';

/** What needs room, bytes. */
export interface Load {
  readonly question: Pick<Question, 'container' | 'engine'>;
  /** Of host memory, which not every host tells, and of GPU contents. Undefined counts as 0, here and below. */
  readonly memoryBytes: number | undefined;
  readonly contentBytes: number;
  /** Of changes of the root file system, which are sent beside the memory. */
  readonly changedBytes: number | undefined;
  /** Where a checkpoint writes to on the source. */
  readonly rooms: readonly Room[];
  /** In which contents are sent ahead. */
  readonly rounds: number;
  /** Host memory is sent ahead, too. */
  readonly sendsMemory: boolean;
}

type Sizes = Pick<Load, 'memoryBytes' | 'contentBytes' | 'changedBytes' | 'rounds' | 'sendsMemory'>;

/**
 * What the target keeps until the container runs: contents once for each round and once more, memory that is sent
 * ahead, the archive, and the copy of it that `restore` makes where the GPU has other device numbers. Of containerd's
 * archive only the changes of the root file system are copied, into an image (src/containerd/moving.ts).
 */
function arrivingBytes(sizes: Sizes): number {
  const { memoryBytes = 0, contentBytes, changedBytes = 0, rounds, sendsMemory } = sizes;
  return (sendsMemory ? 3 : 2) * memoryBytes + (rounds + 1) * contentBytes + 2 * changedBytes;
}

/** GTT memory is not known before the pause, and the container grows meanwhile. */
const spare = { part: 8, bytes: 64 << 20 } as const;

/** The memory of the target that is asked for: nothing that arrives takes more. */
export function promisedBytes(load: Sizes): number {
  const bytes = arrivingBytes(load);
  return bytes + Math.ceil(bytes / spare.part) + spare.bytes;
}

/** Of what podman has in the folder of a container that is checkpointed, and unpacks there for a restore. */
function imageBytes({ memoryBytes = 0, changedBytes = 0, sendsMemory }: Sizes): number {
  return (sendsMemory ? 2 : 1) * memoryBytes + changedBytes;
}

/** Engines write memory into their images and into archives; sessions write the GPU contents once for each round. */
export function roomReasonsHere(load: Load) {
  const { rooms, rounds, memoryBytes = 0, contentBytes, changedBytes = 0 } = load;
  const images = imageBytes(load);
  const contents = (rounds + 1) * contentBytes;
  const bytesOf = {
    archive: memoryBytes + changedBytes,
    images,
    contents,
    whole: images + contents,
  };
  return rooms.flatMap(({ destinations, freeBytes }): Mismatch[] => {
    const needed = destinations.reduce((sum, { gets }) => sum + bytesOf[gets], 0);
    if (needed <= freeBytes) return [];
    const where = destinations.map(({ folder }) => folder).join(' and ');
    return [
      {
        code: 'E_IO',
        message: `${where} here: a checkpoint writes about ${needed} bytes, ${freeBytes} are free`,
        hint: 'make room there, or name a larger folder for the archive in TMPDIR',
      },
    ];
  });
}

/** Against the room on the target. */
export function roomReasons(load: Load, facts: Facts): Mismatch[] {
  const { memory_free_bytes: free, store } = facts;
  const { memoryBytes = 0 } = load;
  const reasons: Mismatch[] = [];
  if (memoryBytes > free) {
    reasons.push({
      code: 'E_HOST',
      message: `memory: the container uses ${memoryBytes} bytes, ${free} are free there`,
      hint: 'end other work there, or move it to a host with more memory',
    });
  }
  return [
    ...reasons,
    ...(store.in_memory ? memoryReasons(load, free) : folderReasons(load, store)),
    ...engineReasons(load, facts),
  ];
}

/**
 * podman unpacks an archive in the folder of its new container, and applies the changes from there. containerd makes a
 * layer of the changes, and applies them; it reads the memory from where that has arrived.
 */
function engineReasons(load: Load, { engine_store: to }: Facts): Mismatch[] {
  if (to === undefined) return [];
  const { question, changedBytes = 0 } = load;
  const unpacked = question.engine === 'podman' ? imageBytes(load) : changedBytes;
  const needed = unpacked + changedBytes + (to.with_store ? arrivingBytes(load) : 0);
  if (needed <= to.free_bytes) return [];
  return [
    {
      code: 'E_IO',
      message: `${to.path}: a restore writes about ${needed} bytes there, ${to.free_bytes} are free`,
      hint: `make room in ${to.path} there`,
    },
  ];
}

function folderReasons(load: Load, { path, free_bytes: free }: Facts['store']): Mismatch[] {
  const needed = arrivingBytes(load);
  if (needed <= free) return [];
  return [
    {
      code: 'E_IO',
      message: `${path}: up to ${needed} bytes arrive there, ${free} are free`,
      hint: `make room in ${path} there, or name a larger folder with --store`,
    },
  ];
}

/** All that arrives is there at the same time as the container that is restored from it. */
function memoryReasons(load: Load, free: number): Mismatch[] {
  const { memoryBytes, question } = load;
  if (memoryBytes === undefined) {
    const message = `memory: how much container ${question.container} needs there is not known`;
    return [{ code: 'E_HOST', message, hint: 'keep what arrives in a folder there: --store DIR' }];
  }
  const needed = promisedBytes(load);
  if (memoryBytes > free || needed + memoryBytes <= free) return [];
  const message =
    `memory: up to ${needed} bytes arrive there, the container uses ${memoryBytes}, ` +
    `${free} are free`;
  const hint = 'end other work there, or keep what arrives in a folder there: --store DIR';
  return [{ code: 'E_HOST', message, hint }];
}
