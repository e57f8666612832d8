/** Passes folders of GPU contents to the sessions of a podman that this command runs. */

import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { commandFolderName } from '../criu/command-folder.js';
import { type ContentsRequest, requestFileName } from '../criu/contents-request.js';
import { processName } from '../os/ancestors.js';

/** Calls `work` with its own folder while sessions find `request` there. Throws its error, and Node's. */
export async function withRequest<Result>(
  run: string,
  request: ContentsRequest,
  work: (folder: string) => Promise<Result>,
): Promise<Result> {
  const folder = join(run, commandFolderName('contents', processName(process.pid)));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    // Sessions of other commands look here, too, and must not find half a text.
    const draft = join(folder, `.${requestFileName}`);
    await writeFile(draft, JSON.stringify(request), { mode: 0o600 });
    await rename(draft, join(folder, requestFileName));
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
