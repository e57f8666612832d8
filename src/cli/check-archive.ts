/** `kfd-checkpoint check CHECKPOINT`: prints the result as text or JSON. */

import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { HostFolder } from '../archive/container.js';
import type { CheckpointContents } from '../archive/contents.js';
import { isMissing } from '../errors.js';
import { numbers } from '../gpu/device-numbers.js';
import type { Mismatch } from '../gpu/mismatch.js';
import type { GpuPair } from '../gpu/pair.js';
import { gfxName } from '../gpu/properties.js';
import { cdiNameOf } from '../runtime/cdi-gpus.js';
import { asLine, stepsOf } from './containerd-steps.js';
import { realFolders } from './contents-folders.js';
import type { CommandContext } from './context.js';
import { json, size, table } from './format.js';
import { type ImageReference, type NamedCheckpoint, withCheckpoint } from './image-reference.js';
import {
  crioRisk,
  forEngine,
  kubeletEngine,
  podInWords,
  podNeeds,
  podSteps,
  restoringEngine,
} from './kubelet-steps.js';
import { type Restorability, refusal, restorabilityOf, runtimeOf } from './restorability.js';
import { bundleAt } from './restore-target.js';

export interface CheckArchiveOptions {
  readonly format: 'table' | 'json';
  readonly root: string;
  readonly gpuMap?: string;
  readonly gpus?: string;
  readonly ignoreMismatch?: string;
  readonly contents?: readonly string[];
}

interface Verdict extends Restorability {
  /** No reasons against a restore, but to be known. */
  readonly risks: readonly Mismatch[];
  /** The user has named an image. */
  readonly reference: ImageReference | undefined;
  /** How containerd restores its image. */
  readonly containerd: readonly (readonly string[])[] | undefined;
  /** The folder is the contents of a checkpoint image that somebody has mounted, and no container in place. */
  readonly isMounted: boolean;
  /** Of GPU contents, as they were found. */
  readonly folders: readonly string[];
  /** Options of the user that choose GPUs: the restore needs them, too. */
  readonly chosen: readonly string[];
}

/** Prints the result. Throws the first reason against a restore, if any. */
export async function checkArchive(
  name: string,
  context: CommandContext,
  options: CheckArchiveOptions,
): Promise<void> {
  await withCheckpoint(name, context, (found) => checkAt(found, name, options, context));
}

/** `name`: what the user has called it. */
async function checkAt(
  { path, layers, reference, containerd }: NamedCheckpoint,
  name: string,
  { format, root, gpuMap, gpus, ignoreMismatch, contents = [] }: CheckArchiveOptions,
  context: CommandContext,
): Promise<void> {
  const folders = await realFolders(contents);
  const documents = containerd?.documents;
  const options = { root, gpuMap, gpus, ignoreMismatch, folders, layers, containerd: documents };
  const found = await restorabilityOf(path, context, options);
  // A pod has folders of its own, which are those of its spec.
  const kubelet = kubeletEngine(found.contents);
  const hostFolders = kubelet === undefined ? found.contents.container?.hostFolders : [];
  const missing = await missingFolders(hostFolders ?? [], root);
  const engine = restoringEngine(found.contents);
  const reasons = found.reasons.map((one) => (engine ? forEngine(engine, one) : one));
  const { kind } = found.contents;
  const verdict: Verdict = {
    ...found,
    reasons: [...reasons, ...missing],
    risks: [
      ...(found.placement?.risks ?? []),
      ...(engine === 'CRI-O' && found.placement !== undefined ? [crioRisk] : []),
    ],
    reference,
    containerd: containerd && stepsOf(containerd.image, reference, containerd.name),
    folders,
    chosen: [
      ...(gpuMap === undefined ? [] : ['--gpu-map', gpuMap]),
      ...(gpus === undefined ? [] : ['--gpus', gpus]),
    ],
    isMounted: reference === undefined && kind === 'bundle' && (await bundleAt(path)) === undefined,
  };
  context.out(format === 'json' ? json(asJson(name, verdict)) : asTable(name, verdict));
  const refused = refusal(name, verdict.reasons);
  if (refused !== undefined) throw refused;
}

/** Finds missing folders of mounts. Without them the OCI runtime would fail before it starts CRIU. */
async function missingFolders(folders: readonly HostFolder[], root: string): Promise<Mismatch[]> {
  const found = folders.map(async ({ destination, source }): Promise<Mismatch[]> => {
    const isThere = await access(join(root, source)).then(
      () => true,
      (error: unknown) => !isMissing(error),
    );
    if (isThere) return [];
    return [
      {
        code: 'E_HOST',
        message: `mount ${destination}: ${source} is not on this host`,
        hint: `copy ${source} to this host: the container has it mounted`,
      },
    ];
  });
  return (await Promise.all(found)).flat();
}

/** Within `schema_version` 1 members are only added. */
function asJson(path: string, verdict: Verdict) {
  const { contents, placement, reasons, needsRewriting, cdi, host } = verdict;
  const steps = reasons.length === 0 ? stepsTo(path, verdict) : [];
  const kubelet = kubeletEngine(contents);
  const pod = kubelet && podNeeds(kubelet);
  return {
    schema_version: 1,
    path,
    restorable: reasons.length === 0,
    gpu_state: gpuState(verdict),
    needs_rewriting: needsRewriting,
    ...(steps.length > 0 && pod === undefined && { command: steps.at(-1) }),
    ...(steps.length > 1 && pod === undefined && { preparation: steps[0] }),
    ...(steps.length > 0 && { steps }),
    ...(reasons.length === 0 && pod?.annotation && { annotation: pod.annotation }),
    ...(reasons.length === 0 && pod?.image && { pod_image: pod.image }),
    kind: contents.kind,
    compression: contents.compression,
    gpus: (placement?.pairs ?? []).map(({ recorded, present }) => ({
      recorded: { ...recorded, gfx: gfxName(recorded.gfx_target_version) },
      present: {
        ...present.record,
        gfx: gfxName(present.record.gfx_target_version),
        vram_free_bytes: present.vramFreeBytes,
        cdi_name: cdiNameOf(present, cdi, host),
      },
    })),
    moves: placement?.moves ?? [],
    gone: placement?.gone ?? [],
    ignored: placement?.ignored ?? [],
    warnings: verdict.risks,
    reasons,
  };
}

function gpuState({ contents }: Restorability): 'none' | 'unsealed' | 'sealed' {
  if (contents.manifest !== undefined) return 'sealed';
  return contents.imageFiles.size === 0 ? 'none' : 'unsealed';
}

function asTable(path: string, verdict: Verdict): string {
  const { placement, reasons, cdi, host } = verdict;
  const parts: string[] = [];
  if (placement !== undefined && placement.pairs.length > 0) {
    const heads = ['GPU', 'MODEL', 'WAS', 'BECOMES', 'LOCATION', 'FREE VRAM'];
    const names = placement.pairs.map(({ present }) => cdiNameOf(present, cdi, host));
    const isNamed = names.some((one) => one !== undefined);
    const rows = placement.pairs.map((pair, i) => [
      ...pairRow(pair),
      ...(isNamed ? [names[i] ?? '-'] : []),
    ]);
    parts.push(table(isNamed ? [...heads, 'CDI NAME'] : heads, rows));
  }
  const ignored = placement?.ignored ?? [];
  if (ignored.length > 0) {
    const rows = ignored.map(({ difference, message }) => [difference ?? '', message]);
    parts.push(table(['IGNORED', 'DIFFERENCE TO THE SOURCE HOST'], rows));
  }
  const { risks } = verdict;
  if (risks.length > 0) {
    parts.push(
      table(
        ['WARNING'],
        risks.map(({ message, hint }) => [`${message} (${hint})`]),
      ),
    );
  }
  if (reasons.length > 0) {
    const rows = reasons.map(({ code, message }) => [code, message]);
    parts.push(table(['REASON', 'WHY THIS HOST CANNOT RESTORE IT'], rows));
  } else {
    const moves = placement?.moves ?? [];
    const rows = moves.map(({ what, from, to }) => [what, numbers(from), numbers(to)]);
    for (const { what, from } of placement?.gone ?? []) {
      rows.push([what, numbers(from), 'goes']);
    }
    if (rows.length > 0) parts.push(table(['DEVICE', 'NUMBER WAS', 'BECOMES'], rows));
    const state = gpuState(verdict) === 'none' ? 'no GPU state; ' : '';
    const steps = asLine(stepsTo(path, verdict));
    const kubelet = kubeletEngine(verdict.contents);
    const pod = kubelet && podInWords(podNeeds(kubelet));
    const ways = [steps, pod].filter(Boolean).join(', and ');
    parts.push(`${state}would restore here by: ${ways}\n`);
  }
  return parts.join('\n');
}

/** A recorded GPU and the one that takes its place, for a table. */
export function pairRow({ recorded, present: { record, vramFreeBytes } }: GpuPair): string[] {
  return [
    `${recorded.ordinal}`,
    gfxName(recorded.gfx_target_version),
    `renderD${recorded.render_minor}`,
    `renderD${record.render_minor}`,
    record.location,
    vramFreeBytes === undefined ? '-' : size(vramFreeBytes),
  ];
}

/** The commands to type, one after the other. */
function stepsTo(path: string, verdict: Verdict): readonly (readonly string[])[] {
  if (verdict.containerd !== undefined) return verdict.containerd;
  const { contents, reference } = verdict;
  // Nothing tells of which archive an image was made.
  const kubelet = kubeletEngine(contents);
  if (kubelet !== undefined) {
    const isArchive = contents.kind === 'archive' && reference === undefined;
    return isArchive ? podSteps(kubelet, path, contents.container?.name) : [];
  }
  const first = preparation(path, verdict);
  return [...(first ? [first] : []), command(path, verdict)];
}

/** The name of the archive that `preparation` makes. */
const madeArchive = 'checkpoint.tar';

/** What comes before `command`: only an archive can be rewritten, a folder cannot. */
function preparation(
  path: string,
  { needsRewriting, isMounted, folders }: Verdict,
): readonly string[] | undefined {
  return (needsRewriting || folders.length > 0) && isMounted
    ? ['tar', '-C', path, '-cf', madeArchive, '.']
    : undefined;
}

/** The command to type. A bundle or image directory belongs to a container that still exists. */
function command(path: string, verdict: Verdict): string[] {
  const { contents, needsRewriting, ignoredByOption, isMounted, reference, folders, chosen } =
    verdict;
  const ignore = ['--ignore-mismatch', ignoredByOption.join(',')];
  const isInLayout = reference !== undefined && reference.transport !== 'containers-storage';
  if (needsRewriting || isInLayout || folders.length > 0) {
    // An image directory does not say whose it is.
    const stored = contents.kind === 'image' ? 'CONTAINER' : path;
    const target = isMounted ? madeArchive : stored;
    const options = [
      ...chosen,
      ...(ignoredByOption.length > 0 ? ignore : []),
      ...folders.flatMap((folder) => ['--contents', folder]),
    ];
    return ['kfd-checkpoint', 'restore', ...options, target, ...previous(contents)];
  }
  if (reference?.transport === 'containers-storage') {
    return ['podman', ...runtimeOf(verdict), 'container', 'restore', reference.image];
  }
  if (isMounted) return ['podman', 'container', 'restore', 'IMAGE'];
  if (contents.kind !== 'archive') {
    return ['podman', 'container', 'restore', contents.container?.name ?? 'CONTAINER'];
  }
  return ['podman', 'container', 'restore', '--import', path, ...previous(contents)];
}

/** The user knows where the archive of the pre-checkpoint is. */
function previous({ needsPrevious }: CheckpointContents): string[] {
  return needsPrevious === true ? ['--import-previous', 'PRE-CHECKPOINT'] : [];
}
