/** A task of containerd that arrives: tar takes its archive apart while it comes, so nothing is kept twice. */

import { promises } from 'node:fs';
import { dirname } from 'node:path';
import type { ForwardFileJob } from '../addon.js';
import { previousFolder, taskFiles, unpackTask } from '../containerd/task-archive.js';
import { asKfdError } from '../errors.js';
import { stage } from '../stages.js';
import { taskFolder } from './containerd-engine.js';
import { awaitedArchive, orNoRoom, roomIn } from './contents.js';
import type { Places } from './places.js';

/** The addon's: decodes such a stream, of at most `limit` bytes, for a program. Its errors are KfdErrors. */
export type ForwardFile = (pipe: number, limit: number) => ForwardFileJob;

/**
 * Takes the archive of a task from standard input, or that of its memory, which comes before. The folder has its name
 * when all is there. Throws E_NOT_FOUND, E_IO, E_IMAGE_CORRUPT, E_HOST without tar, Node's error.
 */
export async function receiveTask(
  id: string,
  places: Places,
  forward: ForwardFile,
  isPrevious: boolean,
): Promise<void> {
  const archive = await awaitedArchive(id, places);
  const folder = taskFolder(dirname(archive));
  const part = `${folder}.part`;
  await promises.mkdir(part, { recursive: true, mode: 0o700 });
  const limit = await roomIn(part);
  const names = isPrevious ? [previousFolder] : Object.values(taskFiles);
  stage('migrate-target', isPrevious ? 'memory' : 'taking');
  await orNoRoom(archive, id, places, async () => {
    const job = forward(0, limit);
    const [sent, unpacked] = await Promise.allSettled([
      job.done,
      unpackTask(job.pipe, part, names),
    ]);
    // A stream that is cut ends tar, too; a tar that ends leaves a pipe without a reader.
    const isCut = sent.status === 'rejected' && asKfdError(sent.reason, archive).code !== 'E_IO';
    if (isCut) throw sent.reason;
    if (unpacked.status === 'rejected') throw unpacked.reason;
    if (sent.status === 'rejected') throw sent.reason;
  });
  if (!isPrevious) await promises.rename(part, folder);
}
