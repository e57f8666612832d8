/**
 * Memory of a task that goes on, for a checkpoint that is to follow: runc has CRIU save it, past the stock shim, which
 * has no call for that. The kernel tracks from then on what changes.
 */

import { existsSync, promises } from 'node:fs';
import { join } from 'node:path';
import type { TaskName } from '../criu/task-link.js';
import { KfdError, printable } from '../errors.js';
import type { Run } from '../os/exec.js';
import { criuConfigFile, usualRuncRoot } from '../runtime/shim-names.js';
import { bundles } from './shim-call.js';
import { packTask, previousFolder } from './task-archive.js';

/** The largest hosts take less. */
const saveMs = 24 * 3600_000;

/**
 * Saves it to `folder`, where `saveTask` finds it. The file `archive` gets it, too. Throws E_UNSUPPORTED_STATE where
 * the checkpoint could not leave it out, E_HOST without runc, E_IO.
 */
export async function saveMemory(
  { namespace, id }: TaskName,
  folder: string,
  archive: string,
  { root, run }: { readonly root: string; readonly run: Run },
): Promise<void> {
  if (!existsSync(join(root, bundles, namespace, id, criuConfigFile))) throw otherConfig(id);
  const image = join(folder, previousFolder);
  const work = join(folder, 'work');
  for (const one of [image, work]) await promises.mkdir(one, { recursive: true, mode: 0o700 });
  const places = ['--image-path', image, '--work-path', work];
  const words = ['--root', join(root, usualRuncRoot, namespace), 'checkpoint', '--pre-dump'];
  const done = await run('runc', [...words, ...places, id], { timeoutMs: saveMs });
  await promises.rm(work, { recursive: true });
  if (done?.status === 0) return packTask(folder, [previousFolder], archive);
  // The checkpoint has all memory then.
  await promises.rm(image, { recursive: true });
  throw refused(id, done?.stderr);
}

/** `said`: nothing without runc. */
function refused(id: string, said: string | undefined): KfdError {
  if (said === undefined)
    return new KfdError('E_HOST', 'runc: is not there', { hint: 'install runc' });
  const reason = printable(said.trim().split('\n').at(-1) ?? '');
  return new KfdError('E_IO', `${id}: runc cannot save its memory: ${reason}`, {
    hint: 'see what "kfd-checkpoint check" says of pre-checkpoints',
  });
}

function otherConfig(id: string): KfdError {
  const message = `${id}: CRIU reads another configuration for it than ours`;
  return new KfdError('E_UNSUPPORTED_STATE', message, {
    hint: 'start it without the annotation org.criu.config',
  });
}
