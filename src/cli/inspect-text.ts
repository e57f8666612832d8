/** The report of `inspect` as text. */

import type { ManifestExtFile } from '../manifest/schema.js';
import { duration, rate, size, type TreeNode, table } from './format.js';
import { gpuNode, hostNodes, hostTable } from './inspect-host.js';
import type { InspectReport } from './inspect-report.js';

const unknown = '-';

export function inspectTable(report: InspectReport): string {
  const { checkpoint_size: sizes } = report;
  const parts = [
    table(
      [
        'CONTAINER',
        'IMAGE',
        'ID',
        'RUNTIME',
        'CREATED',
        'CONTAINER ENGINE',
        'CHKPT SIZE',
        'GPU STATE',
        'GPU SIZE',
      ],
      [
        [
          report.container_name ?? unknown,
          report.image ?? unknown,
          report.id?.slice(0, 12) ?? unknown,
          report.runtime ?? unknown,
          report.created ?? unknown,
          report.engine ?? unknown,
          size(sizes.total_size),
          report.gpu_state,
          size(sizes.amd_gpu_memory_pages_size),
        ],
      ],
    ),
  ];
  if (report.host !== undefined) parts.push(hostTable(report.host));
  if (report.gpus !== undefined) {
    parts.push(
      table(
        ['GPU', 'ID', 'MODEL', 'VRAM', 'RENDER NODE', 'LOCATION', 'MEC', 'SDMA'],
        report.gpus.map((gpu) => [
          `${gpu.ordinal}`,
          `${gpu.gpu_id}`,
          gpu.gfx,
          size(gpu.vram_bytes),
          `renderD${gpu.render_minor}`,
          gpu.location,
          `${gpu.fw_version ?? unknown}`,
          `${gpu.sdma_fw_version ?? unknown}`,
        ]),
      ),
      table(
        ['PROCESS', 'PID', 'COMMAND', 'GPUS', 'BOS', 'QUEUES', 'EVENTS', 'HANDLES', 'VRAM', 'GTT'],
        (report.processes ?? []).map((process) => [
          `${process.ordinal}`,
          `${process.ns_pid}`,
          process.comm,
          process.gpus.join(','),
          `${process.num_bos}`,
          process.kfd ? `${process.kfd.queues.length}` : unknown,
          process.kfd ? `${process.kfd.events.count}` : unknown,
          handleCount(process.render_files),
          size(process.vram_bytes),
          size(process.gtt_bytes),
        ]),
      ),
    );
  }
  const lost = (report.processes ?? []).flatMap(({ ordinal, lost_queues: reasons = [] }) =>
    reasons.map((reason) => [`${ordinal}`, reason]),
  );
  if (lost.length > 0) parts.push(table(['PROCESS', 'QUEUES THAT DO NOT COME BACK'], lost));
  if (report.transfers !== undefined) {
    parts.push(
      table(
        ['CONTENTS', 'GPU', 'COPY ENGINE', 'BYTES', 'STORED', 'TIME', 'RATE', 'SLOWEST STAGE'],
        report.transfers.map((transfer) => [
          transfer.file,
          `${transfer.gpu}`,
          transfer.engine,
          size(transfer.bytes),
          size(transfer.stored_bytes),
          duration(transfer.wall_us),
          rate(transfer.bytes_per_s),
          transfer.slowest,
        ]),
      ),
    );
  }
  const warnings = report.warnings ?? [];
  if (warnings.length > 0) parts.push(warnings.map((text) => `Warning: ${text}\n`).join(''));
  return parts.join('\n');
}

export function inspectTree(report: InspectReport): TreeNode {
  const sizes = report.checkpoint_size;
  const facts: [string, string | undefined][] = [
    ['Image', report.image],
    ['ID', report.id],
    ['Runtime', report.runtime],
    ['Created', report.created],
    ['Checkpointed', report.checkpointed],
    ['Container engine', report.engine],
  ];
  return {
    text: report.container_name ?? report.source.path,
    children: [
      ...facts.flatMap(([name, value]) =>
        value === undefined ? [] : [{ text: `${name}: ${value}` }],
      ),
      {
        text: `Checkpoint size: ${size(sizes.total_size)}`,
        children: [
          { text: `Memory pages size: ${size(sizes.memory_pages_size)}` },
          { text: `AMD GPU memory pages size: ${size(sizes.amd_gpu_memory_pages_size)}` },
          { text: `Root FS diff size: ${size(sizes.root_fs_diff_size)}` },
        ],
      },
      { text: `GPU state: ${report.gpu_state}`, children: gpuNodes(report) },
    ],
  };
}

function deviceOf({ gpu, buffer }: ManifestExtFile): string {
  if (buffer !== undefined) return `, buffer ${buffer}`;
  return gpu === undefined ? '' : `, GPU ${gpu}`;
}

function gpuNodes(report: InspectReport): TreeNode[] {
  const { host, tool, gpus, processes, buffers, ext_files: extFiles, timings_us: timings } = report;
  const shared = report.shared_buffers ?? [];
  if (!host || !tool || !gpus || !processes || !buffers || !extFiles || !timings) return [];
  return [
    { text: `Written by ${tool.name} ${tool.version}, ${report.gpu_checkpointed}` },
    ...(report.parent ? [{ text: `Parent: ${report.parent.archive}` }] : []),
    ...(report.ignored ? [{ text: `Ignored: ${report.ignored.join(', ')}` }] : []),
    ...(report.warnings ?? []).map((text) => ({ text: `Warning: ${text}` })),
    ...hostNodes(host, report.kernel),
    { text: 'GPUs', children: gpus.map(gpuNode) },
    {
      text: 'Processes',
      children: processes.map((process) => ({
        text: `[${process.ns_pid}] ${process.comm}`,
        children: [
          { text: `GPUs: ${process.gpus.join(', ')}` },
          { text: `BOs: ${process.num_bos}, objects: ${process.num_objects}` },
          ...(process.kfd ? objectNodes(process.kfd) : []),
          ...(process.lost_queues ?? []).map((reason) => ({ text: `Not restorable: ${reason}` })),
          ...process.render_files.map(renderNode),
          { text: `VRAM: ${size(process.vram_bytes)}, GTT: ${size(process.gtt_bytes)}` },
        ],
      })),
    },
    {
      text: 'Buffers',
      children: [
        { text: `VRAM: ${buffers.vram.count}, ${size(buffers.vram.size)}` },
        { text: `GTT: ${buffers.gtt.count}, ${size(buffers.gtt.size)}` },
        ...(shared.length === 0 ? [] : [{ text: 'Shared', children: shared.map(sharedNode) }]),
      ],
    },
    {
      text: 'Device files',
      children: extFiles.map((file) => ({
        text: `${file.criu_id}: ${file.kind}, process ${file.process}${deviceOf(file)}`,
      })),
    },
    {
      text: 'Timings',
      children: Object.entries(timings).map(([name, us]) => ({ text: `${name}: ${duration(us)}` })),
    },
    ...(report.transfers === undefined
      ? []
      : [{ text: 'Contents', children: report.transfers.map(transferNode) }]),
  ];
}

type Transfer = NonNullable<InspectReport['transfers']>[number];

function transferNode(transfer: Transfer): TreeNode {
  const { file, gpu, engine, workers, bytes, stored_bytes: stored } = transfer;
  const reason = transfer.engine_reason;
  const pace = `${duration(transfer.wall_us)}, ${rate(transfer.bytes_per_s)}`;
  return {
    text: `${file}: GPU ${gpu}, ${pace}, slowest: ${transfer.slowest}`,
    children: [
      { text: `Copies: ${engine}, ${size(bytes)}, waited for ${duration(transfer.copy_wait_us)}` },
      ...(reason === undefined ? [] : [{ text: `Not by SDMA: ${reason}` }]),
      { text: `Workers: ${workers}, waited for ${duration(transfer.work_wait_us)}` },
      { text: `File: ${size(stored)}, ${duration(transfer.file_us)} of all workers` },
      {
        text:
          `Encoding: ${duration(transfer.code_us)} of all workers, ` +
          `with ${duration(transfer.hash_us)} for checksums`,
      },
      { text: `Workers waited for their turn: ${duration(transfer.turn_wait_us)}` },
    ],
  };
}

function sharedNode(buffer: NonNullable<InspectReport['shared_buffers']>[number]): TreeNode {
  const { id, kind, size: bytes, gpu, processes } = buffer;
  return {
    text: `${id}: ${kind}, ${size(bytes)}, GPU ${gpu}, processes ${processes.join(', ')}`,
  };
}

type RenderFile = NonNullable<InspectReport['processes']>[number]['render_files'][number];

function handleCount(files: readonly RenderFile[]): string {
  const counts = files.map(({ handles }) => handles?.length);
  if (counts.includes(undefined)) return unknown;
  return `${counts.reduce<number>((sum, count = 0) => sum + count, 0)}`;
}

function renderNode(file: RenderFile): TreeNode {
  const { criu_id: id, gpu, carries_kfd: carriesKfd, handles, contexts } = file;
  const name = `Render file ${id}: GPU ${gpu}${carriesKfd ? ", with KFD's memory" : ''}`;
  if (handles === undefined) return { text: `${name}, cannot be read` };
  const buffers = `${handles.length} GEM handles, ${file.gpu_mappings} GPU mappings`;
  const counts = `${buffers}, ${contexts} contexts, ${file.bo_lists} BO lists`;
  return {
    text: `${name}, ${counts}`,
    children: handles.map(({ handle, kind, size: bytes }) => ({
      text: `${handle}: ${kind === 'handle' ? 'another BO' : kind}, ${size(bytes)}`,
    })),
  };
}

type KnownObjects = NonNullable<NonNullable<InspectReport['processes']>[number]['kfd']>;

function objectNodes({ bos, queues, events, svm_ranges: ranges }: KnownObjects): TreeNode[] {
  return [
    {
      text: 'BOs by kind',
      children: Object.entries(bos).map(([kind, sum]) => ({
        text: `${kind}: ${sum.count}, ${size(sum.size)}`,
      })),
    },
    {
      text: `Queues: ${queues.length}`,
      children: queues.map((queue) => ({
        text:
          `${queue.id}: ${queue.kind}, GPU id ${queue.gpu_id}, ` +
          `ring ${size(queue.ring_size)}, priority ${queue.priority}`,
      })),
    },
    {
      text: `Events: ${events.count}, with ${events.set} set and ${events.auto_reset} with auto-reset`,
    },
    ...(ranges.count === 0 ? [] : [{ text: `SVM ranges: ${ranges.count}, ${size(ranges.size)}` }]),
  ];
}
