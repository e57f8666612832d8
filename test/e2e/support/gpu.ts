/**
 * The simulated GPU beneath: which driver serves it, what lives on it, what it is to do. Files of both drivers have one
 * path and one form (test/lab/control/README.md), so that a scenario need not know on which it runs.
 */

import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';
import { attempt, run, until } from './command.js';

/** `real` is Debian's amdgpu and amdkfd over simulated hardware; `kfdsim` a driver that is simulated, too. */
export interface Gpu {
  readonly driver: 'real' | 'kfdsim';
  readonly parameters: readonly string[];
}

const files = '/sys/kernel/debug/simgpu';

/** As the guest was given it when it was started. */
export const usualGpu: Gpu = usual();

function usual(): Gpu {
  const [driver, ...parameters] = readFileSync('/run/lab/gpu', 'utf8').trim().split(/ +/);
  if (driver !== 'real' && driver !== 'kfdsim') throw new Error(`no driver ${driver}`);
  return { driver, parameters };
}

/** Whether this is the guest with the kernel that follows the usual one's (7.3). */
export const onNextKernel = !release().startsWith('6.');

/** What the guest's whole run is about, whichever GPU a scenario has. */
const ofTheRun = usualGpu.parameters.filter((one) => /^(behaves_as|gfx_target_version)=/.test(one));

/** Whether a dispatch of gfx9 that a checkpoint stops is lost (kfd_mqd_manager_v9.c:mqd_manager_init_v9@7.3.4). */
export const losesDispatches =
  onNextKernel || (ofTheRun.includes('behaves_as=7.3') && ofTheRun.length === 1);

/** The kernels that kfdsim behaves as, of which the product has rules, by their releases. */
const releases: Readonly<Record<string, string>> = {
  '6.1': '6.1.192',
  '6.12.107': '6.12.107',
  '6.12.117': '6.12.117',
  '7.2': '7.2.13',
  '7.3': '7.3.4',
};

/** Lets the product see the release of the kernel that kfdsim behaves as with these parameters, if there is one. */
export async function showRelease(parameters: readonly string[] = ofTheRun): Promise<void> {
  const kernel = parameters.find((one) => one.startsWith('behaves_as='))?.split('=')[1];
  if (kernel === undefined) return;
  const file = '/run/lab/osrelease';
  writeFileSync(file, `${releases[kernel] ?? kernel}\n`);
  await run('mount', '--bind', file, '/proc/sys/kernel/osrelease');
}

/** Takes back what the last showRelease() did. */
export const hideRelease = () => attempt('umount', '/proc/sys/kernel/osrelease');

/** Another one of the usual driver's. */
export function gpuWith(...parameters: string[]): Gpu {
  return { driver: usualGpu.driver, parameters: [...ofTheRun, ...parameters] };
}

/** What the real driver cannot be made to do: other chips, other kernels' behaviour. */
export function kfdsim(...parameters: string[]): Gpu {
  return { driver: 'kfdsim', parameters };
}

/** Puts it in; one that was there goes, and nothing may use it. */
export async function loadGpu({ driver, parameters }: Gpu = usualGpu): Promise<void> {
  await run('sh', '/repo/test/lab/load-gpu', driver, ...parameters);
}

/** As it usually is; for the end of a scenario that had another one, and may have failed. */
export async function loadWhenUnused(): Promise<void> {
  await until('a GPU that nobody uses', () => gpuObjects()['processes'] === 0, 20);
  await loadGpu();
}

export async function unloadGpu(): Promise<void> {
  await run('sh', '/repo/test/lab/load-gpu', 'none');
}

/** The GPU goes, and another module takes the major of `/dev/kfd`, so that the next one has another major. */
export async function takeMajor(): Promise<void> {
  await unloadGpu();
  await run('modprobe', 'uio');
}

/** As the guest was, also when a move to other numbers failed half way. */
export async function goHome(): Promise<void> {
  const away = ['/sys/module/uio', '/dev/dri/renderD129'].filter((path) => existsSync(path));
  if (away.length === 0) return;
  await unloadGpu();
  await attempt('rmmod', 'uio');
  await loadGpu();
}

/** Living objects whose number only changes when something is made or lost. */
export const steadyObjects = [
  'processes',
  'bos',
  'vram_bytes',
  'gtt_bytes',
  'queues',
  'events',
  'vms',
  'contexts',
] as const;

/** Living objects: all zero when nothing uses it. */
export function gpuObjects(): Record<string, number> {
  const others = ['userptr', 'maps', 'fences', 'evicted', 'pinned_pages', 'svm_ranges'];
  return Object.fromEntries(readCounters([...steadyObjects, ...others]));
}

/**
 * kfd_process.c:kfd_process_kunmap_signal_bo@6.12.117 looks for the GPU of the events' page by the id that the process
 * knows. Where that is no id of this host, the page is still pinned when its BO goes; TTM warns and frees it.
 */
export const pinnedEventsPage = 'drivers/gpu/drm/ttm/ttm_bo.c:252 ttm_bo_release';

/**
 * Waits for a complaint of the driver with this text, which a defect of its own brings about. It does not fail the
 * guest then; all others do. That it must come tells when the driver has been mended.
 */
export async function meetComplaint(text: string): Promise<void> {
  const complained = async () => (await attempt('dmesg')).stdout.includes(text);
  await until(`the kernel's complaint ${text}`, complained, 20);
  appendFileSync('/run/lab/known-complaints', `${text}\n`);
}

function readCounters(names: readonly string[]): [string, number][] {
  const text = readFileSync(`${files}/counters`, 'utf8');
  const all = new Map(text.split('\n').map((line) => line.split(' ') as [string, string]));
  return names.map((name) => {
    const value = all.get(name);
    if (value === undefined) throw new Error(`${files}: no counter ${name}`);
    return [name, Number(value)];
  });
}

const dangerous = ['resume_without_vm', 'resume_unrestored', 'paused_again', 'blob_overruns'];
/**
 * What kfdsim knows of and the real driver does. Not among them: `stale_handle_deletes`, which programs that share a
 * buffer on one GPU bring about when they end.
 */
const dangerousAsSimulated = ['mes_restores', 'freed_folders', 'event_page_mixups'];

/** Calls that no kernel wants, or that crash one: how often each was made since the GPU was put in. */
export function dangerousCalls(): Record<string, number> {
  const simulated = existsSync('/sys/module/amdgpu/parameters/behaves_as');
  return Object.fromEntries(
    readCounters(simulated ? [...dangerous, ...dangerousAsSimulated] : dangerous),
  );
}

/**
 * What the process with this host pid has on the GPU, a line for each object; what a running queue does
 * on its own is left out.
 */
export function gpuObjectsOf(pid: number): string[] {
  const all = readFileSync(`${files}/objects`, 'utf8').split(/^(?=process )/m);
  const [head = '', ...objects] =
    all.find((one) => one.startsWith(`process pid=${pid} `))?.split('\n') ?? [];
  return [
    head.replace(/pid=\d+ /, ''),
    ...objects.map((line) => line.replace(/ pos=\d+ progress=\d+/, '')),
  ];
}

/** MB/s of DMA from now on; 0: unlimited. */
export function setDmaRate(mbps: number): void {
  setParameter('dma_mbps', String(mbps));
}

/** So fast that it is no matter, MB/s. */
const vramMbps = 100_000;

/**
 * MB/s of copies between the host's memory and VRAM from now on; 0: unlimited. VRAM itself is fast, as it is on any
 * GPU: the real driver resets one that takes seconds to clear a buffer.
 */
export function setLinkRate(mbps: number): void {
  setDmaRate(mbps);
  setVramRate(mbps === 0 ? 0 : vramMbps);
}

/** MB/s of copies that stay in VRAM from now on; 0: as DMA. */
export function setVramRate(mbps: number): void {
  setParameter('vram_mbps', String(mbps));
}

const nodes = '/sys/class/kfd/kfd/topology/nodes';

/** KFD's id of the first GPU. */
function gpuId(): number {
  const ids = readdirSync(nodes)
    .toSorted((a, b) => Number(a) - Number(b))
    .map((node) => Number(readFileSync(`${nodes}/${node}/gpu_id`, 'utf8')));
  const first = ids.find((id) => id !== 0); // that of a CPU is 0
  if (first === undefined) throw new Error(`${nodes}: no GPU`);
  return first;
}

/** Rules of what is to go wrong (test/lab/control/README.md). */
export function addFault(...rules: readonly string[]): void {
  for (const rule of rules) writeFileSync(`${files}/faults`, `${rule}\n`);
}

/** The GPU has no VRAM to give any more. */
export function fillVram(): void {
  addFault(`vram ${gpuId()} 0`);
}

export function forgetFaults(): void {
  writeFileSync(`${files}/faults`, 'clear\n');
}

/** Time that steps of dispatches take from now on, in percent of what they ask for. */
export function setStepTime(percent: number): void {
  setParameter('step_percent', String(percent));
}

export type Kernel = '6.1' | '6.12.107' | '6.12' | '7.2' | '7.3';

/** As which kernel's driver kfdsim treats whoever opens /dev/kfd from now on. */
export function behaveAs(kernel: Kernel): void {
  setParameter('behaves_as', kernel);
}

/** Which of its later calls for GEM handles kfdsim's kernel has from now on. */
export function setHandleCalls(
  list: 'absent' | 'working',
  change: 'absent' | 'disabled' | 'working',
): void {
  setParameter('gem_list_handles', list);
  setParameter('gem_mapping_info', list);
  setParameter('gem_change_handle', change);
}

function setParameter(name: string, value: string): void {
  writeFileSync(`/sys/module/amdgpu/parameters/${name}`, value);
}
