/** Before a migration: what moves, and whether the target can take it. Nothing is stopped or changed. */

import { join } from 'node:path';
import { type Config, defaultConfigPath, loadConfig } from '../config.js';
import { KfdError } from '../errors.js';
import { parseGpuMap } from '../gpu/gpu-map.js';
import { type Host, hostRecord, readHost } from '../gpu/host.js';
import { parseDifferences } from '../gpu/ignorable.js';
import { momentNow } from '../migrate/clock.js';
import type { SshConnection } from '../migrate/connection.js';
import { usualNamespace } from '../migrate/containerd-engine.js';
import type { Estimate } from '../migrate/estimate.js';
import { placesBelow } from '../migrate/places.js';
import { type Answer, compare, type Moving } from '../migrate/question/compare.js';
import {
  gpuProcesses,
  liveContainer,
  manifestNow,
  memoryOf,
} from '../migrate/question/container.js';
import { type Facts, factsOf } from '../migrate/question/documents.js';
import { roomHere } from '../migrate/question/source-room.js';
import { toolVersions } from '../migrate/question/target-facts.js';
import { liveTask } from '../migrate/question/task.js';
import { temporaryRoot } from '../os/temporary.js';
import { version } from '../version.js';
import { tracksMemory } from './checks/criu.js';
import type { CommandContext } from './context.js';
import { ifKnown } from './restorability.js';

export interface QuestionOptions {
  readonly root: string;
  /** Where the target keeps what arrives. */
  readonly store?: string;
  /** Rounds ahead. */
  readonly precopy?: number;
  readonly engine?: 'podman' | 'containerd';
  /** Of containerd. */
  readonly namespace?: string;
  readonly gpuMap?: string;
  readonly ignoreMismatch?: string;
}

export interface MigrateOptions extends QuestionOptions {
  readonly dryRun?: boolean;
  readonly withImage?: boolean;
  /** Seconds, as the next one. */
  readonly lease?: number;
  readonly maxDowntime?: number;
  readonly quiet?: boolean;
  readonly format: 'text' | 'json';
}

export interface Asked {
  readonly moving: Moving;
  readonly facts: Facts;
  readonly answer: Answer;
  /** undefined: it was not asked for, or the connection could not be measured. */
  readonly estimate?: Estimate;
}

/**
 * Asks over `connection`. Throws as `movingOf` and the connection, E_CONFIG for the configuration, E_USAGE for the
 * options.
 */
export async function askTarget(
  moving: Moving,
  connection: SshConnection,
  { root, gpuMap, ignoreMismatch }: QuestionOptions,
): Promise<Asked> {
  const config: Config = await loadConfig(join(root, defaultConfigPath));
  const asked = ignoreMismatch === undefined ? [] : parseDifferences(ignoreMismatch);
  const map = gpuMap === undefined ? undefined : parseGpuMap(gpuMap);
  connection.messages.send({ type: 'question', question: moving.question });
  const answer = await connection.inTime(
    () => momentNow(root),
    () => connection.expect('facts'),
  );
  const facts = factsOf(answer.facts);
  const choices = {
    ...(map !== undefined && { gpu_map: map }),
    ignore_mismatch: [...config.ignore_mismatch, ...asked],
  };
  return { moving, facts, answer: compare(moving, facts, choices) };
}

/** Where the archive is on its way, without a name. */
export const archiveFolder = () => temporaryRoot('/var/tmp');

/** The container as it runs now. Throws as `liveContainer`, E_NO_GPU where it has no GPU state. */
export async function movingOf(
  name: string,
  { root, store, precopy = 0, engine = 'podman', namespace = usualNamespace }: QuestionOptions,
  { run, native }: CommandContext,
): Promise<Moving> {
  const task = engine === 'containerd' ? { namespace, id: name } : undefined;
  const found = task && (await liveTask(task, run, root));
  const container = found ?? (await liveContainer(name, run, root));
  const host = await readHost({
    root,
    kfdVersion: ifKnown(native.kfdVersion),
    xsaveBytes: ifKnown(native.xsaveBytes),
  });
  const processes = await gpuProcesses(container.id, root, found?.pids);
  const [first] = processes;
  if (first === undefined) {
    throw new KfdError('E_NO_GPU', `${name}: no process of it uses the GPU`, {
      hint: task
        ? 'move it by an image: ctr container checkpoint --task'
        : 'move it with podman alone: podman container checkpoint --export',
    });
  }
  const { bundle } = container;
  const manifest = manifestNow(hostRecord(withKfd(host)), processes, version);
  return {
    question: {
      engine,
      ...(found && { namespace, runtime: found.shim }),
      container: container.name,
      image: container.image,
      image_id: container.imageId,
      folders: [...container.folders],
      ...(store !== undefined && { store }),
    },
    containerId: container.id,
    release: version,
    tools: await toolVersions(run),
    runtime: container.runtime,
    hasCrunMasks: container.hasCrunMasks,
    manifest,
    obstacles: container.obstacles,
    memoryBytes: await memoryOf(task ? `${namespace}/${name}` : container.id, first.pid, root),
    contentBytes: manifest.buffers.reduce((sum, { size }) => sum + size, 0),
    changedBytes: container.changedBytes,
    rounds: precopy,
    sendsMemory: precopy > 0 && (await tracksMemory(run)),
    rooms: await roomHere([
      { folder: archiveFolder(), gets: 'archive' },
      { folder: placesBelow(root).kept, gets: task ? 'whole' : 'contents' },
      ...(bundle === undefined ? [] : [{ folder: bundle, gets: 'images' } as const]),
    ]),
  };
}

function withKfd(host: Host): Parameters<typeof hostRecord>[0] {
  const { kfdVersion, kfdDevice } = host;
  if (kfdVersion !== undefined && kfdDevice !== undefined)
    return { ...host, kfdVersion, kfdDevice };
  throw new KfdError('E_NO_GPU', '/dev/kfd: cannot be used on this host', {
    hint: 'run as root; see "kfd-checkpoint check"',
  });
}
