/** Checks of the kernel: what it can bring back on each GPU, and the driver's parameters that decide it. */

import { driverVersion, readParameters, svmGpus } from '../../gpu/driver-state.js';
import { readHost } from '../../gpu/host.js';
import {
  isPartition,
  isReadDriver,
  nearestRead,
  type QueueHost,
  rowsOf,
} from '../../gpu/kernel-rules.js';
import type { KernelRow } from '../../gpu/kernel-table.js';
import type { QueueKind } from '../../gpu/kfd-objects.js';
import { gfxName } from '../../gpu/properties.js';
import { queueProbe } from '../../gpu/queue-probe.js';
import type { ManifestGpu } from '../../manifest/schema.js';
import { type Check, type Finding, fail, ok, warn } from './finding.js';
import type { Mend } from './mend.js';

const kinds = ['compute', 'sdma'] as const;
const page = 'docs/kernels.md has the rows';

export const kernel: Check = async ({ root, native, mend }) => {
  const { gpus: found, kernelRelease } = await readHost({ root });
  if (found.length === 0) return [];
  const gpus = found.map(({ record }) => record);
  const parameters = await readParameters(root);
  const takes = queueProbe(gpus, native.kfdRestoreTakes);
  const driver = await driverVersion(root);
  const host: QueueHost = { kernelRelease, driver, gpus, parameters, takes };
  const svm = await svmGpus(root);
  const limits = gpus.map((gpu) => limitsOf(gpu, host, svm.has(gpu.gpu_id)));
  const isAble = limits.some(({ certain }) => !certain.includes('compute'));
  return [
    releaseFinding(host),
    ...parameterFindings(parameters, mend),
    ...limits.map((one) => queueFinding(one, isAble)),
  ];
};

/** Of one GPU. */
interface Limits {
  readonly gpu: ManifestGpu;
  /** The GPU in words. */
  readonly facts: string;
  readonly rows: readonly KernelRow[];
  /** Kinds of queues of which none comes back; `likely` also those of which ROCm's do not. */
  readonly certain: readonly QueueKind[];
  readonly likely: readonly QueueKind[];
}

function limitsOf(gpu: ManifestGpu, host: QueueHost, svm: boolean): Limits {
  const rows = rowsOf(gpu, host).filter((row) => isMeant(row, gpu, host, svm));
  const kindsOf = (chosen: (row: KernelRow) => boolean) =>
    kinds.filter((kind) =>
      rows.some((row) => isLost(row, kind) && chosen(row) && !isTaken(row, gpu, kind, host)),
    );
  return {
    gpu,
    facts: factsOf(gpu, host, svm),
    rows,
    certain: kindsOf(
      ({ saved, evident }) => saved === undefined && (!evident || isReadDriver(host)),
    ),
    likely: kindsOf(({ saved }) => saved !== 'stopped_without_stack'),
  };
}

function releaseFinding(host: QueueHost): Finding {
  const { kernelRelease: release, driver } = host;
  if (isReadDriver(host)) return ok('kernel', `${release}: its driver was read`);
  const whose =
    driver === undefined ? 'its driver' : `its amdgpu ${driver}, which is not the kernel's own`;
  const message = `${release}: nobody has read ${whose}; ${nearestRead(release).kernel} is the nearest that was read`;
  return warn('kernel', message, `try a checkpoint that may be lost; ${page}`);
}

/** Others than the driver's defaults. `noretry` and `mes` are only told. */
function parameterFindings(parameters: ReadonlyMap<string, number>, mend: Mend): Finding[] {
  if (parameters.size === 0) return [];
  const text = [...parameters].map(([name, value]) => `${name}=${value}`).join(', ');
  if (parameters.get('cwsr_enable') === 0) {
    const message = `${text}: without cwsr_enable no queue can be saved`;
    return [fail('amdgpu', message, mend.bootWith('amdgpu.cwsr_enable=1'))];
  }
  if ((parameters.get('sched_policy') ?? 0) !== 0) {
    const message = `${text}: sched_policy other than 0 was never tried`;
    return [warn('amdgpu', message, mend.bootWith('amdgpu.sched_policy=0'))];
  }
  return [ok('amdgpu', text)];
}

/** What comes back of the queues of one GPU, and what does not. A host where no compute queue does is not able. */
function queueFinding({ gpu, facts, rows, likely }: Limits, isAble: boolean): Finding {
  const back = kinds.filter((kind) => !likely.includes(kind));
  const what = back.length === 0 ? 'no queue comes back' : `${back.join(' and ')} queues come back`;
  const notes = rows.map(({ queues, why }) => `${queues.join(', ')}: ${why}`);
  const message = [`${facts}: ${what}`, ...notes].join('; ');
  const name = `gpu ${gpu.ordinal} queues`;
  const ids = { rows: rows.map(({ id }) => id) };
  if (likely.length === 0) return { ...ok(name, message), ...ids };
  const helps = rows.find(
    (row) => kinds.some((kind) => isLost(row, kind)) && row.instead !== 'none',
  );
  const hint = `${helps === undefined ? 'use another GPU' : `instead: ${helps.instead}`}; ${page}`;
  return { ...(isAble ? warn : fail)(name, message, hint), ...ids };
}

function isLost({ effect, queues }: KernelRow, kind: QueueKind): boolean {
  return effect === 'refused' && queues.includes(kind);
}

/** Where a GPU has SVM, ROCm's compute queues have their save areas in SVM ranges; elsewhere none has. */
function isMeant(row: KernelRow, gpu: ManifestGpu, host: QueueHost, svm: boolean): boolean {
  if (row.saved === 'area_in_svm_range') return svm;
  return !row.queues.every((kind) => isTaken(row, gpu, kind, host));
}

/** The kernel was asked, and takes such queues. */
function isTaken(row: KernelRow, gpu: ManifestGpu, kind: QueueKind, host: QueueHost): boolean {
  return row.probed === true && host.takes?.(gpu, kind) === true;
}

function factsOf(gpu: ManifestGpu, host: QueueHost, svm: boolean): string {
  const { gfx_target_version: gfx, num_xcc: dies, location } = gpu;
  return [
    gfxName(gfx),
    ...(dies > 1 ? [`${dies} compute dies`] : []),
    ...(isPartition(gpu, host.gpus) ? [`partition ${location.slice(-1)} of its device`] : []),
    svm ? 'SVM' : 'no SVM',
    ...(gfx >= 110000 ? ['MES'] : []),
  ].join(', ');
}
