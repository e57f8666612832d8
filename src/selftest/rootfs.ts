/** The root file system of the self-test's containers: the static program, and nothing else. */

import { copyFile, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bench } from './bench.js';
import { assertProgram, programPath } from './program.js';
import type { StageWork } from './stage.js';

/** The program in the container, and the folder in which it takes orders. */
export const insideProgram = '/kfd-checkpoint-selftest';
export const insideFolder = '/control';

/** Makes the folder `name`; it goes with the stage. Throws E_HOST, Node's errors. */
export async function makeRootfs(bench: Bench, work: StageWork, name: string): Promise<string> {
  await assertProgram(bench);
  const rootfs = join(bench.folder, name);
  work.undo('root file system', () => rm(rootfs, { recursive: true, force: true }));
  // Engines mount on these, and cannot make them in a file system that they may not write.
  for (const folder of ['dev', 'proc', 'sys', 'tmp', 'etc', 'run', insideFolder]) {
    await mkdir(join(rootfs, folder), { recursive: true, mode: 0o755 });
  }
  await copyFile(programPath(bench.prefix), join(rootfs, insideProgram));
  return rootfs;
}
