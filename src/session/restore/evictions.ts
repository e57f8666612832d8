/**
 * Whether queues run again after RESUME. RESUME only queues work, which tries again for ever and reports nothing
 * (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_restore_userptr_worker@6.12.117, @7.3.4). KFD counts an eviction when it is
 * over: restore_process_queues_cpsch and restore_process_queues_nocpsch of kfd_device_queue_manager.c add its duration
 * to `evicted_ms`, with and without queues on the GPU (6.1.192 to 7.3.4). The count is not a time there: RESTORE evicts
 * before a GPU has its VM, and then its begin is not kept. Any change means that the eviction is over.
 *
 * Not seen: on GPUs without MES the count also changes when the scheduler then hangs. The kernel resets such a GPU.
 */

import { readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { KfdError } from '../../errors.js';
import { readTextIfAny } from '../../os/files.js';

/** Inode of the initial pid namespace: PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h. */
const initialPidNamespace = 'pid:[4026531836]';

/** One evicted process, before its RESUME. */
export interface Evicted {
  readonly pid: number;
  /** Text of each counter by its path. */
  readonly counters: ReadonlyMap<string, string>;
  /** Why some GPUs have no counter here; undefined when all have one. */
  readonly unseen?: string;
}

/**
 * Reads the counters of a process on the GPUs of this host with these ids, which name the folders after RESTORE too
 * (kfd_process.c:kfd_procfs_add_sysfs_stats@6.12.118, @7.3.4). `root`: folder of `/sys` and `/proc`.
 */
export async function readEvictions(
  pid: number,
  gpuIds: readonly number[],
  root = '/',
): Promise<Evicted> {
  const none = { pid, counters: new Map<string, string>() };
  const namespace = await readlink(join(root, 'proc/self/ns/pid')).catch(() => '');
  // Folders have pids of the initial namespace. In another one the folder may be another process's.
  if (namespace !== initialPidNamespace) {
    return { ...none, unseen: 'the session is not in the initial pid namespace' };
  }
  const counters = new Map<string, string>();
  const missing: number[] = [];
  for (const id of gpuIds) {
    const path = join(root, `sys/class/kfd/kfd/proc/${pid}/stats_${id}/evicted_ms`);
    const text = await counterText(path);
    if (text === undefined) missing.push(id);
    else counters.set(path, text);
  }
  const unseen = `KFD shows no evicted_ms for gpu ${missing.join(', ')}`;
  return { pid, counters, ...(missing.length > 0 && { unseen }) };
}

/**
 * Returns when each counter has changed. Throws E_TIMEOUT after `seconds`, E_GPU_IO when a process ends before. A
 * process without counters is believed.
 */
export async function evictionsOver(
  processes: readonly Evicted[],
  seconds: number,
  pollMs = 5,
): Promise<void> {
  const end = performance.now() + seconds * 1000;
  for (const { pid, counters } of processes) {
    for (const [path, before] of counters) {
      while ((await count(pid, path)) === before) {
        if (performance.now() >= end) throw stillEvicted(pid, path, seconds);
        await setTimeout(pollMs);
      }
    }
  }
}

/** A file of sysfs that goes while it is read answers ENODEV. */
async function counterText(path: string): Promise<string | undefined> {
  return readTextIfAny(path).catch(() => undefined);
}

async function count(pid: number, path: string): Promise<string> {
  const text = await counterText(path);
  if (text !== undefined) return text;
  throw new KfdError('E_GPU_IO', `process ${pid}: ended before its queues ran again`, {
    hint: 'read the kernel log',
  });
}

function stillEvicted(pid: number, path: string, seconds: number): KfdError {
  const gpu = /stats_(\d+)/.exec(path)?.[1];
  const waited = seconds.toFixed(1);
  const reason = `process ${pid}: its queues do not run on gpu ${gpu}, ${waited} s after RESUME`;
  return new KfdError('E_TIMEOUT', reason, {
    hint: 'the driver tries again for ever when host memory or VRAM is short: read the kernel log, free memory',
    details: { pid, counter: path },
  });
}
