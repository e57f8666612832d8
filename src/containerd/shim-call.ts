/**
 * Checkpoints of tasks by our shim's own socket. containerd's client cannot be asked for them: ctr 1.7 ignores where
 * the image shall be, and whether the task shall end, unless the runtime has the stock shim's name.
 */

import { join } from 'node:path';
import type { TaskName } from '../criu/task-link.js';
import { KfdError } from '../errors.js';
import { readTextIfAny } from '../os/files.js';
import { bytesField, numberField } from '../protobuf.js';
import { bundleFile, hasParentField, processesFile } from '../runtime/shim-names.js';
import { connectTo } from '../ttrpc/client.js';
import { statusCode } from '../ttrpc/envelope.js';

/** Where containerd has the bundles of tasks, unless its configuration names another state folder. */
export const bundles = '/run/containerd/io.containerd.runtime.v2.task';

/** A checkpoint of the largest hosts takes less. */
const checkpointMs = 24 * 3600_000;

/** The socket of our shim. undefined: another shim runs the task, or none. Throws Node's error. */
export async function shimSocket(
  { namespace, id }: TaskName,
  root: string,
): Promise<string | undefined> {
  const text = await readTextIfAny(join(root, bundles, namespace, id, bundleFile), 4096);
  const path = text?.trim();
  return path?.startsWith('/') === true ? path : undefined;
}

/**
 * The stock shim behind ours, by the name of its process: whatever works on the task descends from it. undefined: there
 * is none. Throws Node's error.
 */
export async function stockShim(task: TaskName, root: string): Promise<string | undefined> {
  const socket = await shimSocket(task, root);
  if (socket === undefined) return undefined;
  const text = await readTextIfAny(processesFile(socket), 4096);
  const [, pid, start] = /^\d+ \d+ (\d+) (\d+) /.exec(text ?? '') ?? [];
  return pid === undefined ? undefined : `${pid}-${start}`;
}

export interface TaskCheckpoint {
  /** An empty folder for the image. */
  readonly image: string;
  /** Folder for CRIU's log. */
  readonly work: string;
  /** Whether the task ends with it. */
  readonly ends: boolean;
  /** Beside the image is one with the memory of a moment ago, and it needs that one. */
  readonly hasParent?: boolean;
}

/**
 * Resolves when the image is complete. A connection that ends cancels it. Throws E_NOT_FOUND where our shim does not
 * run the task, E_IO with the shim's reason.
 */
export async function checkpointTask(
  task: TaskName,
  { image, work, ends, hasParent }: TaskCheckpoint,
  root: string,
): Promise<void> {
  const socket = await shimSocket(task, root);
  if (socket === undefined) throw notOurs(task);
  const client = await connectTo(socket, () => undefined);
  try {
    // containerd.runc.v1.CheckpointOptions, of proto/runc-options.proto: exit, file_locks, image_path, work_path.
    const options = Buffer.concat([
      numberField(1, ends ? 1 : 0),
      numberField(5, 1),
      bytesField(8, image),
      bytesField(9, work),
    ]);
    const any = Buffer.concat([
      bytesField(1, 'containerd.runc.v1.CheckpointOptions'),
      bytesField(2, options),
    ]);
    const payload = Buffer.concat([
      bytesField(1, task.id),
      bytesField(2, image),
      bytesField(3, any),
      ...(hasParent === true ? [numberField(hasParentField, 1)] : []),
    ]);
    for (const service of ['containerd.task.v3.Task', 'containerd.task.v2.Task']) {
      const request = { service, method: 'Checkpoint', payload };
      const { code, message } = await client.call(request, checkpointMs);
      // Stock shims of 1.x have only v2.
      if (code === statusCode.unimplemented) continue;
      if (code === statusCode.ok) return;
      throw new KfdError('E_IO', `${task.id}: checkpoint: ${message}`);
    }
    throw new KfdError('E_HOST', `${task.id}: its shim has no checkpoints`, {
      hint: 'update containerd',
    });
  } finally {
    client.close();
  }
}

function notOurs({ namespace, id }: TaskName): KfdError {
  return new KfdError('E_NOT_FOUND', `${id}: our shim does not run it in namespace ${namespace}`, {
    hint: 'start it with "ctr run --runtime io.containerd.runc.kfd.v2"',
  });
}
