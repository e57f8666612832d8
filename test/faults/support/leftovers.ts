/** What an operation must not leave. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { sessionCgroups } from '../../e2e/support/cgroups.js';
import { attempt, run, until } from '../../e2e/support/command.js';
import { dangerousCalls, gpuObjects } from '../../e2e/support/gpu.js';
import { installedCriu } from '../../e2e/support/releases.js';
import { tasks, workers } from './victims.js';

const sockets = '/run/kfd-checkpoint';
const ownCgroup = '/sys/fs/cgroup/kfd-checkpoint';
const complaints = /BUG:|WARNING:|Oops|general protection|blocked for more than|refcount_t:|UBSAN:/;

function namesIn(folder: string): string[] {
  // Those of migrations are looked at when each has been brought to its end: migration.ts.
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return names.filter((name) => name !== 'migrations').map((name) => `${folder}/${name}`);
}

/** Without those of the tests. */
function mounts(): string[] {
  return readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((point) => /kfd|criu/.test(point) && !point.startsWith('/run/kfd-checkpoint-stages'))
    .filter((point) => point !== installedCriu);
}

/** Whatever of an operation is there: processes, sockets, cgroups, mounts, dangerous calls. */
function present(): string[] {
  const procs = existsSync(ownCgroup) ? readFileSync(`${ownCgroup}/cgroup.procs`, 'utf8') : '';
  const calls = existsSync('/sys/kernel/debug/simgpu') ? Object.entries(dangerousCalls()) : [];
  return [
    ...workers().map((text) => `process ${text}`),
    ...namesIn(sockets).map((path) => `socket folder ${path}`),
    ...sessionCgroups()
      .filter((path) => !/\/migrate-[0-9a-f]+$/.test(path))
      .map((path) => `cgroup ${path}`),
    ...mounts()
      .filter((point) => !point.startsWith('/run/kfd-checkpoint/migrations/'))
      .map((point) => `mount ${point}`),
    ...(procs === '' ? [] : [`processes in ${ownCgroup}`]),
    ...calls.filter(([, count]) => count > 0).map(([name, count]) => `call ${name}: ${count}`),
  ];
}

/** Waits until the processes of an operation have ended, or for `seconds`. */
export async function workersEnd(seconds: number): Promise<void> {
  const ended = () => workers().length === 0;
  await until('the end of all workers', ended, seconds, 100).catch(() => undefined);
}

/** What is still there after `seconds`; ends of processes take a moment. */
export async function leftovers(seconds: number): Promise<string[]> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const left = present();
    if (left.length === 0 || performance.now() > deadline) return left;
    await delay(100);
  }
}

/** Objects on the GPU although no container uses it. */
export async function objectsLeft(seconds = 12): Promise<string[]> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const left = Object.entries(gpuObjects()).filter(([, count]) => count !== 0);
    if (left.length === 0 || performance.now() > deadline) {
      return left.map(([name, count]) => `GPU ${name}: ${count}`);
    }
    await delay(100);
  }
}

let seen = 0;

/** Complaints of the kernel since the last call. */
export async function newComplaints(): Promise<string[]> {
  const lines = (await run('dmesg')).split('\n').filter((line) => !line.includes(' traps: '));
  const all = lines.filter((line) => complaints.test(line));
  const fresh = all.slice(seen);
  seen = all.length;
  return fresh.map((line) => `kernel: ${line}`);
}

/** What killed runtimes have left for CRIU, as docs/troubleshooting.md says: crun takes no image while it is there. */
export async function removeRoots(): Promise<void> {
  for (const root of mounts().filter((point) => point.endsWith('/criu-root'))) {
    await run('umount', '--lazy', root);
    await run('rmdir', root);
  }
}

/**
 * Takes away what a row has left, so that the next is judged by itself. `orphans`: processes of containers, too; no
 * engine knows one any more.
 */
export async function cleanUp(orphans: boolean): Promise<void> {
  for (const text of [...workers(), ...(orphans ? tasks() : [])]) {
    try {
      process.kill(Number(text.split(' ')[0]), 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
  for (const point of mounts()) await attempt('umount', '--lazy', point);
  for (const path of namesIn(sockets)) await attempt('rm', '-rf', path);
  for (const path of sessionCgroups()) await attempt('rmdir', path);
}
