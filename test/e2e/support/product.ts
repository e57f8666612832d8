/** This product as installed in the guest, and the simulated GPU beneath. */

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { run, until } from './command.js';

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
    'svm_ranges',
  ];
  return Object.fromEntries(readCounters(living));
}

function readCounters(names: readonly string[]): [string, number][] {
  const text = readFileSync('/sys/kernel/debug/kfdsim/counters', 'utf8');
  const all = new Map(text.split('\n').map((line) => line.split(' ') as [string, string]));
  return names.map((name) => {
    const value = all.get(name);
    if (value === undefined) throw new Error(`kfdsim: no counter ${name}`);
    return [name, Number(value)];
  });
}

/** Calls that no kernel wants, or that crash one: how often each was made since the GPU was put in. */
export function dangerousCalls(): Record<string, number> {
  return Object.fromEntries(
    readCounters(['resume_without_vm', 'resume_unrestored', 'paused_again', 'blob_overruns']),
  );
}

/**
 * What the process with this host pid has on the simulated GPU, a line for each object; what a
 * running queue does on its own is left out.
 */
export function gpuObjectsOf(pid: number): string[] {
  const all = readFileSync('/sys/kernel/debug/kfdsim/objects', 'utf8').split(/^(?=process )/m);
  const [head = '', ...objects] =
    all.find((one) => one.startsWith(`process pid=${pid} `))?.split('\n') ?? [];
  return [
    head.replace(/pid=\d+ /, ''),
    ...objects.map((line) => line.replace(/ pos=\d+ progress=\d+/, '')),
  ];
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

/** As it usually is; for the end of a scenario that had another one, and may have failed. */
export async function reloadWhenUnused(): Promise<void> {
  await until('a GPU that nobody uses', () => gpuObjects()['processes'] === 0, 20);
  await reloadGpu();
}

export async function unloadGpu(): Promise<void> {
  await run('rmmod', 'amdgpu');
}

/** MB/s of simulated DMA from now on; 0: unlimited. */
export function setDmaRate(mbps: number): void {
  setParameter('dma_mbps', String(mbps));
}

/** MB/s of simulated copies that stay in VRAM from now on; 0: as DMA. */
export function setVramRate(mbps: number): void {
  setParameter('vram_mbps', String(mbps));
}

const faults = '/sys/kernel/debug/kfdsim/faults';
/** Of the simulated GPU, as long as nobody asks for another one. */
const gpuId = 6699;

/** The simulated GPU has no VRAM to give any more. */
export function fillVram(): void {
  writeFileSync(faults, `vram ${gpuId} 0\n`);
}

export function forgetFaults(): void {
  writeFileSync(faults, 'clear\n');
}

/** Time that steps of dispatches take from now on, in percent of what they ask for. */
export function setStepTime(percent: number): void {
  setParameter('step_percent', String(percent));
}

export type Kernel = '6.12' | '7.3';

/** As which kernel's driver the simulated one treats whoever opens /dev/kfd from now on. */
export function behaveAs(kernel: Kernel): void {
  setParameter('behaves_as', kernel);
}

function setParameter(name: string, value: string): void {
  writeFileSync(`/sys/module/amdgpu/parameters/${name}`, value);
}

/** Which of its later calls for GEM handles the simulated kernel has from now on. */
export function setHandleCalls(
  list: 'absent' | 'working',
  change: 'absent' | 'disabled' | 'working',
): void {
  const set = (name: string, value: string) =>
    writeFileSync(`/sys/module/amdgpu/parameters/${name}`, value);
  set('gem_list_handles', list);
  set('gem_mapping_info', list);
  set('gem_change_handle', change);
}
