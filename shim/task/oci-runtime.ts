/** What the OCI runtime does for the shim past the stock shim. */

import { execFile as execFileWithCallback } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { usualRuncRoot } from '../../src/runtime/shim-names.js';
import { type CreateTaskRequest, runcOptionsOf } from './codec.js';

const execFile = promisify(execFileWithCallback);

/** Longest time for each command, milliseconds. runc waits ten seconds for the end of the tasks. */
const limits = { timeout: 30_000, killSignal: 'SIGKILL' } as const;

/**
 * Ends the tasks of the container that the OCI runtime still runs, if any. The stock shim could not
 * take them over, for example because the pipes of a caller are gone. It then regards the container as
 * never started, and neither stops nor deletes it. Rejects with Node's error when the runtime cannot be
 * started, or fails.
 */
export async function endRemainingTasks(
  create: CreateTaskRequest,
  namespace: string,
): Promise<void> {
  const { runtime, containers } = runtimeOf(create, namespace);
  const folder = join(containers, create.id);
  // Without this file runc would remove all contents of the folder, also of a mount in it.
  if (!existsSync(join(folder, 'state.json'))) return;
  // runc mounts the root file system here for CRIU. The mount stays when runc is killed.
  const mounted = join(folder, 'criu-root');
  if (existsSync(mounted)) await execFile('umount', ['-l', mounted], limits);
  await execFile(runtime, ['--root', containers, 'delete', '--force', create.id], limits);
}

/**
 * Stops the tasks of a container that the stock shim takes for paused. Rejects with Node's error when the runtime
 * cannot be started, or fails: they are stopped, for example.
 */
export async function pauseAgain(create: CreateTaskRequest, namespace: string): Promise<void> {
  const { runtime, containers } = runtimeOf(create, namespace);
  await execFile(runtime, ['--root', containers, 'pause', create.id], limits);
}

function runtimeOf(create: CreateTaskRequest, namespace: string) {
  const { binary_name: binary, root } = runcOptionsOf(create.options);
  return { runtime: binary || 'runc', containers: join(root || usualRuncRoot, namespace) };
}
