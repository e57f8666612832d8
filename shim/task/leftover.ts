/** What a restore that failed has left running. */

import { execFile as execFileWithCallback } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type CreateTaskRequest, runcOptionsOf } from './codec.js';

const execFile = promisify(execFileWithCallback);

/** RuncRoot of containerd's stock shim, for options that name no other. */
const usualRoot = '/run/containerd/runc';
/** Longest time for it, milliseconds: runc waits ten seconds for the end of the tasks. */
const limits = { timeout: 30_000, killSignal: 'SIGKILL' } as const;

/**
 * Ends the tasks that the OCI runtime runs of the container, if any: the stock shim, which could not take them over (the pipes of
 * a caller that went away are gone), takes the container for one that was never started, and neither stops nor deletes it.
 * Rejects with Node's error when the runtime cannot be run, or fails.
 */
export async function endLeftover(create: CreateTaskRequest, namespace: string): Promise<void> {
  const { binary_name: binary, root } = runcOptionsOf(create.options);
  const containers = join(root || usualRoot, namespace);
  const folder = join(containers, create.id);
  // Of a folder without it runc would remove all contents, those of a mount in it as well.
  if (!existsSync(join(folder, 'state.json'))) return;
  // Where runc mounts the root file system for CRIU: still there when it did not come to its end.
  const mounted = join(folder, 'criu-root');
  if (existsSync(mounted)) await execFile('umount', ['-l', mounted], limits);
  const runtime = binary || 'runc';
  await execFile(runtime, ['--root', containers, 'delete', '--force', create.id], limits);
}
