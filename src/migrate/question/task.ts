/** A task of containerd that runs: what a migration has to know of it. Reads, and changes nothing. */

import { createHash } from 'node:crypto';
import { attachedRun } from '../../containerd/attached.js';
import { Ctr, namePattern, type TaskRecord } from '../../containerd/ctr.js';
import { shimSocket } from '../../containerd/shim-call.js';
import type { TaskName } from '../../criu/task-link.js';
import { KfdError } from '../../errors.js';
import type { Mismatch } from '../../gpu/mismatch.js';
import type { Run } from '../../os/exec.js';
import type { LiveContainer } from './container.js';

/** By what a migration names it where podman has an id: both hosts have the same one. */
export const taskId = ({ namespace, id }: TaskName): string =>
  createHash('sha256').update(`containerd/${namespace}/${id}`).digest('hex');

export interface LiveTask extends LiveContainer {
  /** containerd's name of the runtime. */
  readonly shim: string;
  readonly pids: readonly number[];
}

/** Throws E_HOST without ctr, E_NOT_FOUND, E_USAGE for a task that does not run. */
export async function liveTask(task: TaskName, run: Run, root: string): Promise<LiveTask> {
  const { id, namespace } = task;
  const ctr = new Ctr(run, namespace);
  const record = namePattern.test(id) ? await ctr.record(id) : undefined;
  if (record === undefined) {
    throw new KfdError('E_NOT_FOUND', `${id}: containerd has no such container in ${namespace}`, {
      hint: 'see "ctr container ls", and name another namespace with --namespace',
    });
  }
  const status = await ctr.status(id);
  if (status !== 'RUNNING') {
    throw new KfdError('E_USAGE', `${id}: is ${status ?? 'without a task'}, and does not run`, {
      hint: 'only a running container can be moved; start it: ctr task start',
    });
  }
  const imageId = await ctr.imageDigest(record.Image);
  const isOurs = (await shimSocket(task, root)) !== undefined;
  const folders = record.Spec.mounts.flatMap(({ type, source }) =>
    type === 'bind' && source?.startsWith('/') === true ? [source] : [],
  );
  return {
    id: taskId(task),
    name: id,
    image: record.Image,
    imageId: imageId ?? '0'.repeat(64),
    runtime: 'runc',
    shim: record.Runtime.Name,
    bundle: undefined,
    folders,
    hasCrunMasks: false,
    obstacles: [
      ...obstaclesOf(record, isOurs, imageId !== undefined),
      ...attachedObstacles(id, await attachedRun(id, root)),
    ],
    pids: await ctr.pids(task),
    changedBytes: await ctr.changedBytes(record),
  };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

/** Options of the runtime that say something. */
function hasOptions({ Runtime }: TaskRecord): boolean {
  const value = isObject(Runtime.Options) ? Runtime.Options['value'] : undefined;
  return typeof value === 'string' && value !== '';
}

/** Of containerd's restart monitor (core/runtime/restart/restart.go: StatusLabel). */
const restartLabel = 'containerd.io/restart.status';

function obstaclesOf(record: TaskRecord, isOurs: boolean, hasImage: boolean): Mismatch[] {
  const reasons: (readonly [reason: string, hint: string])[] = [];
  if (!isOurs) {
    const hint = 'start it with "ctr run --runtime io.containerd.runc.kfd.v2"';
    reasons.push([`runs by ${record.Runtime.Name}, and not by our shim`, hint]);
  }
  if (hasOptions(record)) {
    reasons.push(['has options of its runtime, which do not move', 'start it without them']);
  }
  if (!hasImage) {
    const hint = 'pull the image again: the target makes the container of it';
    reasons.push([`its image ${record.Image} is not here any more`, hint]);
  }
  const { [restartLabel]: restart = 'stopped', ...labels } = record.Labels ?? {};
  if (restart !== 'stopped') {
    const hint = `take the label away: ctr container label ${record.ID} ${restartLabel}=stopped`;
    reasons.push(['is started again by containerd when it ends', hint]);
  }
  if (record.Spec.process?.terminal === true) {
    reasons.push(['has a terminal, which ctr cannot make without one', 'start it without --tty']);
  }
  if (Object.keys(labels).some((name) => name.startsWith('io.cri-containerd.'))) {
    reasons.push(['is of a pod', 'let Kubernetes move it: docs/kubernetes.md']);
  }
  return reasons.map(([reason, hint]) => obstacle(record.ID, reason, hint));
}

function attachedObstacles(id: string, pid: number | undefined): Mismatch[] {
  if (pid === undefined) return [];
  const reason = `would be removed with its checkpoint: process ${pid} is a "ctr run --rm" of it`;
  return [obstacle(id, reason, 'move it by an image: ctr container checkpoint --task')];
}

function obstacle(id: string, reason: string, hint: string): Mismatch {
  return { code: 'E_UNSUPPORTED_STATE', message: `container ${id}: ${reason}`, hint };
}
