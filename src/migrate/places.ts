/** Where a migration has its files. */

import { join } from 'node:path';
import { type JournalRecord, journalFolder } from './journal.js';

/** What a boot ends, a boot forgets. */
export const runFolder = '/run/kfd-checkpoint/migrations';
/** The name of the archive in the folder of a migration. */
export const archiveName = 'checkpoint.tar';
/** And of the one with the memory that was sent ahead. */
export const previousName = 'pre-checkpoint.tar';

/** Where the source keeps GPU contents until it is decided who runs the container. They outlive a boot. */
const keptFolder = '/var/lib/kfd-checkpoint/kept';

export interface Places {
  readonly journal: string;
  /** The lock of whoever plays a side, by `name`: the container's id on the source, the migration's on the target. */
  readonly lock: (name: string) => string;
  /** The lock of podman at work for it. */
  readonly work: (name: string) => string;
  /** What that podman prints. */
  readonly log: (name: string) => string;
  /** What the guard of a migration prints. */
  readonly guardLog: (id: string) => string;
  /** The cgroups of guards: with cgroup v2 each has one of its own. */
  readonly guardCgroups: string;
  /** The socket of whoever plays a side: control.ts. Both sides may have one /run. */
  readonly control: (id: string, side: JournalRecord['side']) => string;
  /** The folder of all but the journal. */
  readonly run: string;
  /** The folder of all that sources keep, and of one migration there. */
  readonly kept: string;
  readonly keptOf: (id: string) => string;
  /** The FIFO for GPU contents that leave this host, by the container's id. */
  readonly fifo: (containerId: string) => string;
  /** A link to the file that gets the contents of a migration. */
  readonly contents: (id: string) => string;
  /** Where contents that arrive are kept in memory: a tmpfs for each migration. */
  readonly memory: (id: string) => string;
}

/** `root`: folder of the system. */
export function placesBelow(root: string): Places {
  const at = (name: string, kind: string) => join(root, runFolder, `${name}.${kind}`);
  return {
    journal: join(root, journalFolder),
    lock: (name) => at(name, 'lock'),
    work: (name) => at(name, 'work'),
    log: (name) => at(name, 'log'),
    guardCgroups: join(root, 'sys/fs/cgroup/kfd-checkpoint'),
    guardLog: (id) => at(id, 'log.guard'),
    control: (id, side) => at(id, side),
    run: join(root, runFolder),
    kept: join(root, keptFolder),
    keptOf: (id) => join(root, keptFolder, id),
    fifo: (containerId) => at(containerId, 'fifo'),
    contents: (id) => at(id, 'contents'),
    memory: (id) => at(id, 'memory'),
  };
}
