/**
 * A task of containerd that moves: its checkpoints, its way back, and its start on another host. The folder of a
 * checkpoint has the image directory, the changes of the root file system and the container's record; an archive has
 * the same on its way. GPU contents are elsewhere: sessions have been asked for that (src/criu/contents-request.ts).
 */

import { promises } from 'node:fs';
import { join } from 'node:path';
import { type TaskName, withLinkedImage } from '../criu/task-link.js';
import { KfdError } from '../errors.js';
import type { Run } from '../os/exec.js';
import { readBounded } from '../os/files.js';
import { Ctr, recordIn, type TaskRecord } from './ctr.js';
import { recordImageName, writeRecordImage } from './record-image.js';
import { checkpointTask, shimSocket, type TaskCheckpoint } from './shim-call.js';
import { packTask, taskFiles, writtenBy } from './task-archive.js';

/** The longest record, bytes: most of it is a spec. */
export const maxRecordBytes = 4 << 20;

/** A start of a large container takes this long at most. The lease is shorter. */
const startMs = 24 * 3600_000;

export interface Host {
  readonly root: string;
  readonly run: Run;
  /** Where our shim looks for links; tests have another one. */
  readonly runFolder?: string;
}

/** A checkpoint that ends its task. */
export interface Saving {
  /** The file that gets all of it. */
  readonly archive: string;
  /** The folder has the memory of a moment ago (task-memory.ts), and the checkpoint is to need it. */
  readonly hasMemory: boolean;
}

/** Checkpoints the task to `folder`, and ends it. The container stays. Throws E_NOT_FOUND, E_IO, E_HOST. */
export async function saveTask(
  task: TaskName,
  folder: string,
  { archive, hasMemory }: Saving,
  host: Host,
): Promise<void> {
  const ctr = new Ctr(host.run, task.namespace);
  const record = await ctr.record(task.id);
  if (record === undefined) throw gone(task);
  await checkpointTo(folder, task, { ends: true, hasParent: hasMemory }, host);
  await writeChanges(ctr, record, join(folder, taskFiles.changes));
  await promises.writeFile(join(folder, taskFiles.record), JSON.stringify(record), { mode: 0o600 });
  await packTask(folder, Object.values(taskFiles), archive);
}

/** A checkpoint for its GPU contents alone, after which the task goes on. `folder` goes, too. Throws as saveTask. */
export async function roundOfTask(task: TaskName, folder: string, host: Host): Promise<void> {
  try {
    await checkpointTo(folder, task, { ends: false }, host);
  } finally {
    await promises.rm(folder, { recursive: true, force: true });
  }
}

async function checkpointTo(
  folder: string,
  task: TaskName,
  kind: Pick<TaskCheckpoint, 'ends' | 'hasParent'>,
  { root }: Host,
) {
  const image = join(folder, taskFiles.image);
  const work = join(folder, 'work');
  await promises.mkdir(folder, { recursive: true, mode: 0o700 });
  for (const one of [image, work]) await promises.mkdir(one, { mode: 0o700 });
  await checkpointTask(task, { image, work, ...kind }, root);
  await promises.rm(work, { recursive: true, force: true });
}

/** What its root file system has more than its image. */
async function writeChanges(ctr: Ctr, record: TaskRecord, path: string): Promise<void> {
  const { Snapshotter: snapshotter, SnapshotKey: key } = record;
  const [program, ...words] = ctr.words('snapshot', '--snapshotter', snapshotter, 'diff', key);
  await writtenBy(program, words, path, 'wx', 'see "journalctl --unit containerd"');
}

/** Starts the task of a stopped container again, from the folder of its checkpoint. Throws E_HOST, E_TIMEOUT. */
export async function restoreTask(
  task: TaskName,
  folder: string,
  { run, runFolder }: Host,
): Promise<void> {
  const ctr = new Ctr(run, task.namespace);
  // Its status is that of the task that has ended.
  await ctr.ask(['task', 'rm', task.id]);
  const start = () => ctr.must(['task', 'start', '--detach', task.id], startMs);
  await withLinkedImage(task, join(folder, taskFiles.image), start, runFolder);
}

/**
 * Makes the container of the record, and starts it from the folder of its checkpoint. `room`: a folder for an image of
 * containerd with the record alone. Throws E_HOST, E_IMAGE_CORRUPT, E_IO, E_TIMEOUT, Node's error. Part of the
 * container may be left then.
 */
export async function startTask(
  task: TaskName,
  folder: string,
  room: string,
  { root, run, runFolder }: Host,
): Promise<void> {
  const ctr = new Ctr(run, task.namespace);
  const document = (await readBounded(join(folder, taskFiles.record), maxRecordBytes)).toString();
  const record = recordIn(document, `${task.id}: its record`);
  const name = recordImageName(task.id);
  const layout = join(room, 'record');
  await writeRecordImage(layout, record, name, join(folder, taskFiles.changes));
  const archive = join(room, 'record.tar');
  const packed = await run('tar', ['-C', layout, '-cf', archive, '.'], { timeoutMs: startMs });
  if (packed?.status !== 0) {
    throw new KfdError('E_IO', `${archive}: cannot be written`, { hint: `make room in ${room}` });
  }
  await promises.rm(layout, { recursive: true });
  try {
    await ctr.must(['image', 'import', '--no-unpack', archive], startMs);
    await promises.rm(archive);
    const restore = () => ctr.must(['container', 'restore', '--rw', task.id, name], startMs);
    await withLinkedImage(task, join(folder, taskFiles.image), restore, runFolder);
  } finally {
    await ctr.ask(['image', 'rm', name]).catch(() => undefined);
  }
  if ((await shimSocket(task, root)) === undefined) throw startedAnew(task, record);
  await keepLabels(ctr, task.id, record);
}

/** containerd gives the container those of an image, which has none. */
async function keepLabels(ctr: Ctr, id: string, { Labels: labels }: TaskRecord): Promise<void> {
  const pairs = Object.entries(labels ?? {}).filter(([name]) => /^[A-Za-z0-9]/.test(name));
  if (pairs.length === 0) return;
  await ctr.must(['container', 'label', id, ...pairs.map(([name, value]) => `${name}=${value}`)]);
}

/** Another shim does not know of the image directory, and starts the program from its beginning. */
function startedAnew({ id }: TaskName, { Runtime: { Name: runtime } }: TaskRecord): KfdError {
  return new KfdError('E_HOST', `${id}: containerd starts another shim than ours for ${runtime}`, {
    hint: 'put a link to containerd-shim-kfd-v2 into a folder of PATH of containerd',
  });
}

function gone({ namespace, id }: TaskName): KfdError {
  return new KfdError('E_NOT_FOUND', `${id}: no such container in namespace ${namespace}`, {
    hint: 'see "ctr container ls"',
  });
}
