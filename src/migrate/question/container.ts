/** A podman container that runs: what a migration has to know of it. Reads, and changes nothing. */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { KfdError } from '../../errors.js';
import { queuesOfProcess } from '../../gpu/driver-state.js';
import type { Mismatch } from '../../gpu/mismatch.js';
import type { Manifest } from '../../manifest/schema.js';
import type { Run } from '../../os/exec.js';
import { readTextIfAny } from '../../os/files.js';
import { hasCrunMasks } from '../../runtime/crun-masks.js';

/** Podman waits for the lock of a container that another command uses. */
const podmanMs = 60_000;
/** For millions of files. */
const walkMs = 60_000;

const inspected = v.pipe(
  v.array(
    v.object({
      Id: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
      Name: v.string(),
      Image: v.string(),
      ImageName: v.string(),
      OCIRuntime: v.string(),
      /** Where a checkpoint leaves its image. */
      StaticDir: v.exactOptional(v.string()),
      GraphDriver: v.exactOptional(
        v.object({ Data: v.nullish(v.object({ UpperDir: v.exactOptional(v.string()) })) }),
      ),
      State: v.object({ Status: v.string(), Pid: v.number() }),
      Mounts: v.array(v.object({ Type: v.string(), Source: v.exactOptional(v.string()) })),
      Pod: v.exactOptional(v.string(), ''),
      Config: v.exactOptional(
        v.object({ Labels: v.nullish(v.record(v.string(), v.string()), {}) }),
        { Labels: {} },
      ),
      HostConfig: v.exactOptional(
        v.object({
          AutoRemove: v.exactOptional(v.boolean(), false),
          RestartPolicy: v.exactOptional(v.object({ Name: v.string() }), { Name: '' }),
        }),
        {},
      ),
    }),
  ),
  v.length(1),
);

type Inspected = v.InferOutput<typeof inspected>[number];

export interface LiveContainer {
  readonly id: string;
  readonly name: string;
  readonly image: string;
  readonly imageId: string;
  readonly runtime: 'crun' | 'runc';
  /** Where podman keeps the image of a checkpoint. */
  readonly bundle: string | undefined;
  /** Folders of this host that are mounted in it. */
  readonly folders: readonly string[];
  /** Bytes that its root file system has beside its image. undefined: the engine does not tell. */
  readonly changedBytes: number | undefined;
  /** Whether only a crun that restores masked folders of its own can restore it. */
  readonly hasCrunMasks: boolean;
  /** What would start or remove it behind the back of a migration. */
  readonly obstacles: readonly Mismatch[];
}

/** Throws E_HOST without podman, E_NOT_FOUND, E_USAGE for a container that does not run. */
export async function liveContainer(name: string, run: Run, root: string): Promise<LiveContainer> {
  const found = await run('podman', ['container', 'inspect', '--', name], { timeoutMs: podmanMs });
  if (found === undefined) {
    throw new KfdError('E_HOST', 'podman: not in PATH', { hint: 'install podman' });
  }
  if (found.status === undefined) {
    throw new KfdError('E_TIMEOUT', `podman: did not describe container ${name} in 60 s`, {
      hint: 'wait for the other command that uses this container',
    });
  }
  if (found.status !== 0) {
    throw new KfdError('E_NOT_FOUND', `${name}: podman has no such container`, {
      hint: 'see "podman ps"',
    });
  }
  const one = parsed(name, found.stdout);
  if (one.State.Status !== 'running') {
    throw new KfdError('E_USAGE', `${name}: is ${one.State.Status}, and does not run`, {
      hint: 'only a running container can be moved; start it, or move its archive',
    });
  }
  const runtime = one.OCIRuntime.endsWith('runc') ? 'runc' : 'crun';
  const folders = one.Mounts.flatMap(({ Type: type, Source: source }) =>
    type === 'bind' && source !== undefined ? [source] : [],
  );
  const { Id: id, Name, Image: imageId, ImageName: image } = one;
  return {
    id,
    name: Name,
    image,
    imageId: imageId.replace(/^sha256:/, ''),
    runtime,
    bundle: one.StaticDir,
    folders,
    changedBytes: await changedBytes(one, run),
    hasCrunMasks: await hasCrunMasks(one.State.Pid, root),
    obstacles: obstaclesOf(one),
  };
}

/**
 * podman's own number (`--size`) takes a walk through all layers of the image, with the container locked
 * (libpod/container_internal.go:rootFsSize@00b2ec5). This is one through what the container has written.
 */
async function changedBytes({ GraphDriver: driver }: Inspected, run: Run) {
  const folder = driver?.Data?.UpperDir;
  if (folder === undefined) return undefined;
  const found = await run('du', ['--summarize', '--bytes', '--', folder], { timeoutMs: walkMs });
  const bytes = /^(\d{1,15})\t/.exec(found?.stdout ?? '')?.[1];
  return bytes === undefined ? undefined : Number(bytes);
}

/** The stopped container must stay as it is: it must neither go nor start by itself. */
function obstaclesOf({ Name: name, Pod, Config, HostConfig }: Inspected): Mismatch[] {
  const reasons: (readonly [reason: string, hint: string])[] = [];
  if (HostConfig.AutoRemove === true) {
    const hint = 'move it by an archive: podman container checkpoint --export';
    reasons.push(['was started with --rm: it would be gone with its checkpoint', hint]);
  }
  const policy = HostConfig.RestartPolicy?.Name ?? '';
  if (!['', 'no'].includes(policy)) {
    const hint = `change that while it moves: podman update --restart no ${name}`;
    reasons.push([`has the restart policy "${policy}", which may start it here again`, hint]);
  }
  const unit = Config.Labels?.['PODMAN_SYSTEMD_UNIT'];
  if (unit !== undefined) {
    const hint = 'move it by an archive, and stop the unit first';
    reasons.push([`belongs to ${unit} of systemd, which may start it here again`, hint]);
  }
  if (Pod !== '') reasons.push(['is in a pod', 'move it by an archive: restore --pod']);
  return reasons.map(([reason, hint]) => ({
    code: 'E_UNSUPPORTED_STATE',
    message: `container ${name}: ${reason}`,
    hint,
  }));
}

function parsed(name: string, text: string): Inspected {
  try {
    const [one] = v.parse(inspected, JSON.parse(text));
    if (one !== undefined) return one;
    throw new Error('nothing in it');
  } catch (cause) {
    const hint = 'update podman, or move the container by an archive';
    throw new KfdError('E_HOST', `podman: unexpected output for container ${name}`, {
      cause,
      hint,
    });
  }
}

/** A process of the container that uses KFD. */
export interface GpuProcess {
  readonly pid: number;
  /** Bytes of VRAM by KFD's id of the GPU. Each GPU that the process may use has an entry. */
  readonly vram: ReadonlyMap<number, number>;
  /** KFD's ids of the GPUs on which it has SDMA queues. */
  readonly sdmaGpus: readonly number[];
}

/**
 * All of them, by pid (kfd_process.c:kfd_procfs_show, kfd_create_process_sysfs@6.12.117). Others' cgroups differ.
 * `own`: all processes of the container, where its engine tells them.
 */
export async function gpuProcesses(
  id: string,
  root: string,
  own?: readonly number[],
): Promise<GpuProcess[]> {
  const folder = join(root, 'sys/class/kfd/kfd/proc');
  const pids = (await names(folder)).filter((name) => /^\d+$/.test(name)).map(Number);
  const found: GpuProcess[] = [];
  for (const pid of pids.toSorted((a, b) => a - b)) {
    const cgroup = await readTextIfAny(join(root, `proc/${pid}/cgroup`)).catch(() => undefined);
    if (!(own?.includes(pid) ?? cgroup?.includes(id) === true)) continue;
    const queues = await queuesOfProcess(pid, root);
    const sdma = queues.filter(({ kind }) => kind === 'sdma').map(({ gpuId }) => gpuId);
    const vram = await vramOf(join(folder, `${pid}`));
    found.push({ pid, vram, sdmaGpus: [...new Set(sdma)] });
  }
  return found;
}

/** Of all its contexts: kfd_process.c:kfd_create_process_sysfs@7.2.13 makes `context_N` for each one but the first. */
async function vramOf(folder: string): Promise<ReadonlyMap<number, number>> {
  const bytes = new Map<number, number>();
  const found = await names(folder);
  const contexts = found.filter((name) => /^context_\d+$/.test(name));
  for (const context of ['.', ...contexts]) {
    for (const name of context === '.' ? found : await names(join(folder, context))) {
      const id = Number(/^vram_(\d{1,10})$/.exec(name)?.[1]);
      if (Number.isNaN(id)) continue;
      const text = await readTextIfAny(join(folder, context, name)).catch(() => undefined);
      const here = /^\d{1,15}\s*$/.test(text ?? '') ? Number(text) : 0;
      bytes.set(id, (bytes.get(id) ?? 0) + here);
    }
  }
  return bytes;
}

function names(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

/**
 * Bytes that CRIU would save of its memory: what is not backed by files. `pid`: of one of its processes. undefined
 * where its cgroup tells nothing, as with cgroup v1.
 */
export async function memoryOf(id: string, pid: number, root: string): Promise<number | undefined> {
  const folder = join(root, 'sys/fs/cgroup');
  const own = await readTextIfAny(join(root, `proc/${pid}/cgroup`)).catch(() => undefined);
  // A process may be in a cgroup below that of the container.
  const named = new RegExp(`^0::/(.*${id}[^/\\n]*)`, 'm').exec(own ?? '')?.[1];
  for (const scope of [
    ...(named === undefined ? [] : [named]),
    `machine.slice/libpod-${id}.scope`,
    `libpod_parent/libpod-${id}`,
  ]) {
    const text = await readTextIfAny(join(folder, scope, 'memory.stat')).catch(() => undefined);
    if (text === undefined) continue;
    const value = (name: string) =>
      Number(new RegExp(`^${name} (\\d{1,15})$`, 'm').exec(text)?.[1] ?? 0);
    return value('anon') + value('shmem');
  }
  return undefined;
}

type SourceHost = Pick<Manifest, 'host' | 'gpus' | 'devices'>;

/**
 * What a checkpoint would record now, for a comparison with GPUs of another host: the GPUs of each process, and one
 * buffer for all its VRAM on each. Nothing of it is written anywhere.
 */
export function manifestNow(
  host: SourceHost,
  processes: readonly GpuProcess[],
  release: string,
): Manifest {
  const ordinals = new Map(host.gpus.map(({ gpu_id, ordinal }) => [gpu_id, ordinal]));
  const known = (ids: Iterable<number>) =>
    [...ids].flatMap((id) => ordinals.get(id) ?? []).toSorted((a, b) => a - b);
  const buffers = processes.flatMap(({ vram }, process) =>
    [...vram].flatMap(([id, size]) => {
      const gpu = ordinals.get(id);
      return gpu === undefined || size === 0 ? [] : [{ process, gpu, size }];
    }),
  );
  return {
    schema_version: 1,
    tool: { name: 'kfd-checkpoint', version: release },
    created: new Date(0).toISOString(),
    ...host,
    processes: processes.map(({ pid, vram, sdmaGpus }, ordinal) => ({
      ordinal,
      pid,
      ns_pid: 0,
      comm: '',
      state_file: `kfd-state-${ordinal}.img`,
      gpus: known(vram.keys()),
      sdma_gpus: known(sdmaGpus),
      num_bos: 0,
      num_objects: 0,
      vram_bytes: [...vram.values()].reduce((sum, bytes) => sum + bytes, 0),
      gtt_bytes: 0,
    })),
    ext_files: [],
    buffers: buffers.map((one, id) => ({
      ...one,
      id,
      bo_index: 0,
      kind: 'vram' as const,
      pages_file: `amdgpu-pages-${one.process}-0000.img`,
    })),
    files: [],
    features: { required: [], optional: [] },
    timings_us: {},
    parent: null,
  };
}
