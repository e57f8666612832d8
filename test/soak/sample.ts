/** What a cycle may leave behind: of the host, of the GPU, of the container's program, of the sessions. */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../e2e/support/command.js';
import { gpuObjects } from '../e2e/support/gpu.js';
import { type LogLine, sessionPids } from '../e2e/support/session.js';

/** Values by their names; the same names in every cycle of a part. */
export type Sample = Readonly<Record<string, number>>;

/**
 * Of the guest. Files below /var/log are those of sessions. A removed cgroup stays in the kernel's memory as long as
 * the page cache has a page that it was charged for. So the caches go first, and what is left was lost.
 */
export function hostSample(): Sample {
  writeFileSync('/proc/sys/vm/drop_caches', '3');
  const memory = readFileSync('/proc/meminfo', 'utf8');
  const kib = (name: string) => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(memory)?.[1]);
  const cgroups = readFileSync('/sys/fs/cgroup/cgroup.stat', 'utf8');
  return {
    host_processes: readdirSync('/proc').filter(isProgram).length,
    host_open_files: Number(readFileSync('/proc/sys/fs/file-nr', 'utf8').split('\t')[0]),
    host_mounts: readFileSync('/proc/self/mountinfo', 'utf8').split('\n').length - 1,
    host_cgroups: countBelow('/sys/fs/cgroup', (entry) => entry.isDirectory()),
    files_in_run: countBelow('/run', (entry) => !entry.isDirectory()),
    files_in_tmp: countBelow('/tmp', (entry) => !entry.isDirectory()),
    files_in_var_lib: countBelow('/var/lib/kfd-checkpoint', (entry) => !entry.isDirectory()),
    session_logs: countBelow('/var/log/kfd-checkpoint', (entry) => !entry.isDirectory()),
    dying_cgroups: Number(/^nr_dying_descendants (\d+)/m.exec(cgroups)?.[1]),
    host_used_mib: Math.round((kib('MemTotal') - kib('MemAvailable')) / 1024),
    slab_unreclaimable_mib: Math.round(kib('SUnreclaim') / 1024),
    shared_memory_mib: Math.round(kib('Shmem') / 1024),
  };
}

/** Kernel threads have no command line; their number comes and goes with the work. */
function isProgram(pid: string): boolean {
  if (!/^\d+$/.test(pid)) return false;
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
  } catch {
    return false; // it has just ended
  }
}

/** Waits until sessions have ended, which podman does not, and `programs` alone have the GPU open. */
export async function settled(programs: number): Promise<void> {
  await until('the end of all sessions', async () => (await sessionPids()).length === 0);
  await until('a GPU that sessions have left', () => gpuObjects()['processes'] === programs);
}

/** Everything that lives on the GPU. */
export function gpuSample(): Sample {
  return Object.fromEntries(
    Object.entries(gpuObjects()).map(([name, count]) => [`gpu_${name}`, count]),
  );
}

/** Of the container's first process. */
export function processSample(pid: number): Sample {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
  return {
    program_descriptors: readdirSync(`/proc/${pid}/fd`).length,
    program_mappings: readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n').length - 1,
    program_threads: field('Threads'),
    program_memory_kib: field('VmRSS'),
  };
}

const logs = '/var/log/kfd-checkpoint';

/** Of the newest session of each kind that has ended. */
export function sessionSample(): Sample {
  return Object.fromEntries(
    (['dump', 'restore'] as const).flatMap((kind) => {
      const end = newestEnd(kind);
      return end?.max_rss_bytes === undefined
        ? []
        : [[`${kind}_session_peak_mib`, Math.round(end.max_rss_bytes / 2 ** 20)]];
    }),
  );
}

function newestEnd(kind: string): LogLine | undefined {
  const ours = new RegExp(`Z-${kind}-\\d+\\.log$`);
  const newest = readdirSync(logs)
    .filter((name) => ours.test(name))
    .sort() // names begin with the time
    .at(-1);
  if (newest === undefined) return undefined;
  const lines = readFileSync(join(logs, newest), 'utf8').split('\n').slice(0, -1);
  return lines
    .map((line) => JSON.parse(line) as LogLine)
    .find(({ msg }) => msg === 'session ended');
}

interface Entry {
  isDirectory(): boolean;
}

function countBelow(folder: string, counts: (entry: Entry) => boolean): number {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries
      .map((entry) => {
        const below = entry.isDirectory() ? countBelow(join(folder, entry.name), counts) : 0;
        return below + (counts(entry) ? 1 : 0);
      })
      .reduce((sum, count) => sum + count, 0);
  } catch {
    return 0; // it has just gone
  }
}
