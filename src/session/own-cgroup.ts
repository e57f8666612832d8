/**
 * The session's own cgroup, so that a session cannot take the host down. The launcher has made it
 * (native/launcher/cgroup.cc) and has moved this process there. Only cgroup v2 has one for each session.
 */

import {
  existsSync,
  openSync,
  readFileSync,
  rmdirSync,
  statfsSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';

/**
 * For everything but copies of contents, MiB: Node.js, its heap, state files of all processes, the
 * manifest, frames of the workers.
 */
export const otherMemoryMib = 4096;

/**
 * The kernel's OOM killer takes a session before other processes (proc_pid_oom_score_adj(5)). An ended
 * session costs a checkpoint, or a restore whose archive stays. An ended job costs its work. Without this
 * a session has the value of its container engine, which is often hardly ever killed.
 */
const oomScoreAdj = 1000;

type Limits = Pick<
  Config,
  'staging_total_mib' | 'freeze_host_mib' | 'session_memory_mib' | 'session_tasks'
>;

/** Types of file systems that keep their files in memory: tmpfs and ramfs (magic.h). */
const inMemory: readonly number[] = [0x01021994, 0x858458f6];

/**
 * Whether the kernel cannot free the memory of files that are written here. Files of a tmpfs count for
 * their writer, and a checkpoint there needs as much memory as the contents. Throws Node's error.
 */
function keepsFilesInMemory(folder: string): boolean {
  return inMemory.includes(statfsSync(folder).type);
}

/** Bytes that the session may use: copies of all kinds at their largest, and the rest. */
export function memoryLimit(config: Limits): number {
  const {
    session_memory_mib: wanted,
    staging_total_mib: staging,
    freeze_host_mib: copies,
  } = config;
  return (wanted || staging + copies + otherMemoryMib) * 2 ** 20;
}

/** Folders of the kernel. Tests replace them. */
export interface KernelFolders {
  readonly cgroups: string;
  readonly proc: string;
}

const kernel: KernelFolders = { cgroups: '/sys/fs/cgroup', proc: '/proc/self' };

/** It never throws: a host without these limits can checkpoint all the same, and the log says so. */
export class OwnCgroup {
  readonly #folders: KernelFolders;
  /** Undefined under cgroup v1, and where the launcher could not make one. */
  readonly #own: string | undefined;
  /** A process without free descriptors can leave, too: this one is open from the start. */
  readonly #outside: number | undefined;

  constructor(folders = kernel) {
    this.#folders = folders;
    try {
      const own = ownCgroup(folders);
      if (own === undefined) return;
      this.#outside = openSync(join(folders.cgroups, 'cgroup.procs'), 'w');
      this.#own = own;
    } catch {
      // There are no cgroups of this kind: the log will say that there are no limits.
    }
  }

  /**
   * Limits this process. `target`: where a checkpoint writes its pages files.
   *
   * There is no memory.high: files are written through the page cache, which counts too, and each write
   * above that mark would be delayed. At memory.max the kernel takes back page cache first.
   */
  limit(config: Limits, log: Pick<Logger, 'info' | 'warn'>, target: string | undefined): void {
    const { cgroups, proc } = this.#folders;
    const own = this.#own;
    try {
      writeFileSync(join(proc, 'oom_score_adj'), String(oomScoreAdj));
      if (own === undefined) {
        log.warn({ reason: 'the session has no cgroup of its own' }, 'no limits');
        return;
      }
      for (const folder of [cgroups, dirname(own)]) {
        writeFileSync(join(folder, 'cgroup.subtree_control'), '+memory +pids');
      }
      const tasks = config.session_tasks;
      writeFileSync(join(own, 'pids.max'), String(tasks));
      if (target !== undefined && keepsFilesInMemory(target)) {
        log.info({ memory_bytes: 'none', tasks }, 'limits');
        return;
      }
      const memory = memoryLimit(config);
      writeFileSync(join(own, 'memory.max'), String(memory));
      log.info({ memory_bytes: memory, tasks }, 'limits');
    } catch (err) {
      log.warn({ err }, 'no limits');
    }
  }

  /** The most memory that the session has used, bytes. Undefined without limits, and before Linux 5.19. */
  peakMemory(): number | undefined {
    try {
      return Number(readFileSync(join(this.#own ?? '', 'memory.peak'), 'utf8'));
    } catch {
      return undefined;
    }
  }

  /** Leaves and removes it. The next launcher removes one that stays. */
  leave(): void {
    if (this.#own === undefined || this.#outside === undefined) return;
    try {
      writeSync(this.#outside, '0');
      rmdirSync(this.#own);
    } catch {
      // The session ends, and has nobody to tell.
    }
  }
}

/** Throws Node's error. */
function ownCgroup({ cgroups, proc }: KernelFolders): string | undefined {
  const text = readFileSync(join(proc, 'cgroup'), 'utf8');
  const path = /^0::(\/kfd-checkpoint\/\d+)$/m.exec(text)?.[1];
  return path === undefined || !existsSync(join(cgroups, 'cgroup.controllers'))
    ? undefined
    : join(cgroups, path);
}
