/** This product as installed in the guest: its logs, its daemons, the simulated GPU beneath. */

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { attempt, run } from './command.js';

export const prefix = '/usr/lib/kfd-checkpoint';
/** The copy of the plugin that CRIU loads. */
export const loadedPlugin = '/var/lib/kfd-checkpoint/criu/kfd_checkpoint.so';
const logs = '/var/log/kfd-checkpoint';
const configPath = '/etc/kfd-checkpoint/config.json';
const module = '/repo/build/lab/amdgpu.ko';

/** Puts the package's files in their place, all of them anew. */
export function unpack(): void {
  run('bash', '/repo/test/lab/install.sh');
}

/** Installs as an operator would: the package's files, then `configure`. */
export function install(): void {
  unpack();
  run('kfd-checkpoint', 'configure');
}

export function configure(settings: Readonly<Record<string, unknown>>): void {
  writeFileSync(configPath, JSON.stringify(settings));
}

/** One line of a session's log. */
export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly outcome?: string;
  readonly err?: { readonly code?: string; readonly message: string };
  readonly content_bytes?: number;
  readonly timings_us?: Readonly<Record<string, number>>;
  readonly [key: string]: unknown;
}

/** Paths of all session logs, oldest first. */
export function sessionLogs(operation: 'dump' | 'restore'): string[] {
  if (!existsSync(logs)) return [];
  return readdirSync(logs)
    .filter((name) => name.includes(`-${operation}-`))
    .sort()
    .map((name) => join(logs, name));
}

/** The lines of the newest session of one kind. */
export function lastSession(operation: 'dump' | 'restore'): LogLine[] {
  const path = sessionLogs(operation).at(-1);
  if (path === undefined) throw new Error(`no ${operation} session has logged anything`);
  // The last line may be half written while the session runs.
  return readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as LogLine);
}

/** Pids of running session daemons. */
export function sessionPids(): number[] {
  const { stdout } = attempt('pgrep', '-f', 'dist/src/session/main.js');
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map(Number);
}

/** Living objects of the simulated GPU: all zero when nothing uses it. */
export function gpuObjects(): Record<string, number> {
  const living = [
    'processes',
    'bos',
    'vram_bytes',
    'gtt_bytes',
    'queues',
    'events',
    'vms',
    'contexts',
    'userptr',
    'maps',
  ];
  const counters: Record<string, number> = {};
  for (const line of readFileSync('/sys/kernel/debug/kfdsim/counters', 'utf8').trim().split('\n')) {
    const [name = '', value = ''] = line.split(' ');
    if (living.includes(name)) counters[name] = Number(value);
  }
  if (Object.keys(counters).length !== living.length)
    throw new Error('kfdsim: counters are missing');
  return counters;
}

/** Puts the simulated GPU in. */
export function loadGpu(...parameters: string[]): void {
  run('insmod', module, ...parameters);
}

/** Loads it anew with other parameters; nothing may use it. */
export function reloadGpu(...parameters: string[]): void {
  unloadGpu();
  loadGpu(...parameters);
}

export function unloadGpu(): void {
  run('rmmod', 'amdgpu');
}

/** MB/s of simulated DMA from now on; 0: unlimited. */
export function setDmaRate(mbps: number): void {
  writeFileSync('/sys/module/amdgpu/parameters/dma_mbps', String(mbps));
}
