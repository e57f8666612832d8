/**
 * A `ctr run --rm` that waits for the end of its task, and removes the container then. containerd has no mark of it: it
 * is found among the processes of this host.
 */

import { promises } from 'node:fs';
import { basename, join } from 'node:path';
import { readTextIfAny } from '../os/files.js';

/** The pid of one for the container `id`. undefined: none is seen. Never throws. */
export async function attachedRun(id: string, root: string): Promise<number | undefined> {
  const names = await promises.readdir(join(root, 'proc')).catch(() => []);
  for (const pid of names.filter((name) => /^\d+$/.test(name))) {
    // It may end meanwhile.
    const text = await readTextIfAny(join(root, 'proc', pid, 'cmdline')).catch(() => undefined);
    if (removes((text ?? '').split('\0'), id)) return Number(pid);
  }
  return undefined;
}

/** Flags have one dash or two; `--rm=false` is one, too. */
const isFlag = (word: string, name: string) => new RegExp(`^--?${name}(=true)?$`).test(word);

/** The words of such a command. Its namespace is not looked at: the environment may name it. */
function removes([program = '', ...words]: readonly string[], id: string): boolean {
  if (basename(program) !== 'ctr') return false;
  const run = words.findIndex((word) => word === 'run' || word === 'r');
  if (run === -1) return false;
  // What follows the id is the command of the container.
  const at = words.indexOf(id, run + 1);
  return at !== -1 && words.slice(run + 1, at).some((word) => isFlag(word, 'rm'));
}
