/** The manifest of a finished dump. Pure. */

import { createHash } from 'node:crypto';
import { KfdError } from '../../errors.js';
import { withCards } from '../../gpu/container-cards.js';
import { type Host, hostRecord } from '../../gpu/host.js';
import { kfdObjectsOf } from '../../gpu/kfd-objects.js';
import {
  detachedFeature,
  parentFeature,
  renderStateFileName,
  stateFileName,
} from '../../manifest/names.js';
import type {
  Manifest,
  ManifestBuffer,
  ManifestExtFile,
  ManifestFile,
  ManifestParent,
  ManifestProcess,
  ManifestShare,
  ManifestTransfer,
} from '../../manifest/schema.js';
import { version } from '../../version.js';
import { type BoPlace, placeKey, type SharedBo } from '../buffers/places.js';
import type { DrainedFile } from '../contents/drain.js';
import type { ParentIndexes } from '../contents/parent.js';
import type { DmabufFile } from './held-dmabufs.js';
import type { DumpedProcess } from './process.js';

export interface DumpFacts {
  readonly host: Host;
  readonly processes: readonly DumpedProcess[];
  readonly extFiles: readonly ManifestExtFile[];
  readonly dmabufFiles: readonly DmabufFile[];
  readonly drained: readonly DrainedFile[];
  readonly shares: readonly SharedBo[];
  readonly parent: ParentIndexes | undefined;
  /** The pages files are in a folder of their own. */
  readonly detached: boolean;
  readonly timings: Readonly<Record<string, number>>;
  /** Device ids of the nodes in the container's `/dev/dri`. */
  readonly nodes: ReadonlySet<number>;
}

export function composeManifest(facts: DumpFacts): Manifest {
  const { host } = facts;
  const { kfdVersion, kfdDevice } = host;
  if (kfdVersion === undefined || kfdDevice === undefined) {
    throw new KfdError('E_NO_GPU', '/dev/kfd: went away during the checkpoint');
  }
  const files: ManifestFile[] = facts.drained.map(({ name, result }) => ({
    name,
    size: result.fileBytes,
    digest: { algo: 'xxh3-128', hex: result.root },
  }));
  const buffers = facts.drained.flatMap((part) => [...part.buffers]);
  const parent = describeParent(facts);
  return {
    schema_version: 1,
    tool: { name: 'kfd-checkpoint', version },
    created: new Date().toISOString(),
    ...hostRecord({ ...host, kfdVersion, kfdDevice }),
    gpus: withCards(host, facts.nodes),
    processes: facts.processes.map((process) => describeProcess(process, host, facts.drained)),
    ext_files: [...facts.extFiles, ...describeDmabufs(facts.dmabufFiles, buffers)],
    buffers,
    ...(facts.shares.length === 0 ? {} : { shares: describeShares(facts.shares, buffers) }),
    files: [...facts.processes.flatMap(stateFiles), ...files],
    features: { required: requiredFeatures(facts, parent), optional: [] },
    timings_us: { ...facts.timings },
    ...(facts.drained.length === 0 ? {} : { transfers: facts.drained.map(describeTransfer) }),
    parent,
  };
}

function requiredFeatures(
  { detached, drained }: DumpFacts,
  parent: ManifestParent | null,
): string[] {
  return [
    ...(detached && drained.length > 0 ? [detachedFeature] : []),
    ...(parent === null ? [] : [parentFeature]),
  ];
}

/** null when no pages file has a parent. */
function describeParent({ parent, drained }: DumpFacts): ManifestParent | null {
  const files = drained.flatMap(({ name, result }) =>
    result.parent === undefined ? [] : [{ name, root: result.parent }],
  );
  if (parent === undefined || files.length === 0) return null;
  return { archive: parent.archive, files };
}

function describeShares(
  shares: readonly SharedBo[],
  buffers: readonly ManifestBuffer[],
): ManifestShare[] {
  const idOf = bufferIds(buffers);
  return shares.map(({ process, bo_index, owner }) => ({
    process,
    bo_index,
    buffer: idOf(owner),
  }));
}

function describeDmabufs(
  files: readonly DmabufFile[],
  buffers: readonly ManifestBuffer[],
): ManifestExtFile[] {
  const idOf = bufferIds(buffers);
  return files.map(({ criuId, owner }) => ({
    criu_id: criuId,
    kind: 'dmabuf',
    process: owner.process,
    buffer: idOf(owner),
  }));
}

function bufferIds(buffers: readonly ManifestBuffer[]): (owner: BoPlace) => number {
  const ids = new Map(buffers.map((buffer) => [placeKey(buffer), buffer.id]));
  return (owner) => {
    const id = ids.get(placeKey(owner));
    if (id === undefined) throw new KfdError('E_INTERNAL', 'manifest: a share without buffer');
    return id;
  };
}

function describeTransfer({ name, result, engineReason }: DrainedFile): ManifestTransfer {
  const { stages } = result;
  return {
    file: name,
    engine: result.engine,
    ...(engineReason !== undefined && { engine_reason: engineReason.slice(0, 1024) }),
    workers: result.workers,
    bytes: result.bytes,
    stored_bytes: stages.file.bytes,
    wall_us: result.wallUs,
    copy_wait_us: stages.copy.waitUs,
    work_wait_us: stages.work.waitUs,
    file_us: stages.file.busyUs,
    code_us: stages.code.busyUs,
    hash_us: stages.hash.busyUs,
    turn_wait_us: result.turnWaitUs,
    slowest: result.slowest,
  };
}

function stateFiles({ ordinal, state, renderFiles }: DumpedProcess): ManifestFile[] {
  return [
    stateFile(stateFileName(ordinal), state ?? Buffer.alloc(0)),
    ...renderFiles.flatMap((file) =>
      file.state ? [stateFile(renderStateFileName(file.number), file.state)] : [],
    ),
  ];
}

function stateFile(name: string, state: Buffer): ManifestFile {
  return {
    name,
    size: state.length,
    digest: { algo: 'sha256', hex: createHash('sha256').update(state).digest('hex') },
  };
}

/** Nothing for private data in an unknown layout. */
function sdmaGpus(
  { state, summary }: DumpedProcess,
  host: Host,
): Pick<ManifestProcess, 'sdma_gpus'> {
  const objects = state && kfdObjectsOf(state);
  if (objects === undefined || summary === undefined) return {};
  const users = objects.queues.filter(({ kind }) => kind === 'sdma').map(({ gpuId }) => gpuId);
  const actual = summary.devices
    .filter(({ userGpuId }) => users.includes(userGpuId))
    .map(({ actualGpuId }) => actualGpuId);
  const gpus = host.gpus.filter(({ record }) => actual.includes(record.gpu_id));
  return { sdma_gpus: gpus.map(({ record }) => record.ordinal) };
}

function describeProcess(
  process: DumpedProcess,
  host: Host,
  drained: readonly DrainedFile[],
): ManifestProcess {
  const { summary } = process;
  if (summary === undefined) throw new KfdError('E_INTERNAL', 'manifest: a process without state');
  const buffers = drained.flatMap((part) => (part.process === process.ordinal ? part.buffers : []));
  const bytes = (kind: 'vram' | 'gtt') =>
    buffers.reduce((sum, buffer) => sum + (buffer.kind === kind ? buffer.size : 0), 0);
  return {
    ordinal: process.ordinal,
    pid: process.pid,
    ns_pid: summary.nsPid,
    comm: process.comm,
    state_file: stateFileName(process.ordinal),
    gpus: summary.devices.flatMap((device) =>
      host.gpus
        .filter(({ record }) => record.gpu_id === device.actualGpuId)
        .map(({ record }) => record.ordinal),
    ),
    ...sdmaGpus(process, host),
    num_bos: summary.bos.length,
    num_objects: summary.numObjects,
    vram_bytes: bytes('vram'),
    gtt_bytes: bytes('gtt'),
  };
}
