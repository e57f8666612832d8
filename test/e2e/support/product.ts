/** This product as installed in the guest, and the simulated GPU beneath. */

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { run } from './command.js';

export const prefix = '/usr/lib/kfd-checkpoint';
/** The copy of the plugin that CRIU loads. */
export const loadedPlugin = '/var/lib/kfd-checkpoint/criu/kfd_checkpoint.so';
const logs = '/var/log/kfd-checkpoint';
const configPath = '/etc/kfd-checkpoint/config.json';
const module = '/repo/build/lab/amdgpu.ko';

/** Puts the package's files in their place, all of them anew. */
export async function unpack(): Promise<void> {
  await run('bash', '/repo/test/lab/install.sh');
}

/** Installs as an operator would: the package's files, then `configure`. */
export async function install(): Promise<void> {
  await unpack();
  await run('kfd-checkpoint', 'configure');
}

/** How many sessions have ever logged. */
export function sessionCount(): number {
  return existsSync(logs) ? readdirSync(logs).filter((name) => name.endsWith('.log')).length : 0;
}

export function configure(settings: Readonly<Record<string, unknown>>): void {
  writeFileSync(configPath, JSON.stringify(settings));
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
    'fences',
    'evicted',
    'pinned_pages',
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
export async function loadGpu(...parameters: string[]): Promise<void> {
  await run('insmod', module, ...parameters);
}

/** Loads it anew with other parameters; nothing may use it. */
export async function reloadGpu(...parameters: string[]): Promise<void> {
  await unloadGpu();
  await loadGpu(...parameters);
}

export async function unloadGpu(): Promise<void> {
  await run('rmmod', 'amdgpu');
}

/** MB/s of simulated DMA from now on; 0: unlimited. */
export function setDmaRate(mbps: number): void {
  writeFileSync('/sys/module/amdgpu/parameters/dma_mbps', String(mbps));
}

/** Runs `body` while the simulated kernel lists GEM handles and their mappings; `change`: what becomes of GEM_CHANGE_HANDLE. */
export async function withHandleCalls(
  change: 'absent' | 'disabled' | 'working',
  body: () => Promise<void>,
): Promise<void> {
  const set = (name: string, value: string) =>
    writeFileSync(`/sys/module/amdgpu/parameters/${name}`, value);
  set('gem_list_handles', 'working');
  set('gem_mapping_info', 'working');
  set('gem_change_handle', change);
  try {
    await body();
  } finally {
    for (const name of ['gem_list_handles', 'gem_mapping_info', 'gem_change_handle'])
      set(name, 'absent');
  }
}
