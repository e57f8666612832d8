/**
 * What podman leaves of a container at its OCI runtime where it is killed in a restore. podman does not know of it, and
 * the runtime refuses another restore of that id: "already exists".
 */

import { existsSync } from 'node:fs';
import { rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { KfdError } from '../errors.js';
import type { Run } from '../os/exec.js';
import { mountsOf } from '../os/mountinfo.js';

/** Those that restore containers of podman. One that has no such container says so, and nothing else. */
const runtimes = ['crun', 'runc'] as const;
/** runc waits ten seconds for the end of the tasks. */
const endMs = 15_000;

/** `runs`: it has processes. */
export interface Leftover {
  readonly runtime: (typeof runtimes)[number];
  readonly runs: boolean;
}

/** What a runtime's `state` prints (OCI runtime specification, "Query State"). */
const state = v.object({ status: v.string() });

/** A folder that crun makes in that of podman, and takes no image while it is there. */
const rootOf = (bundle: string) => join(bundle, 'criu-root');

/**
 * The container at crun or runc, in the folder that each one has by default, or what is left of it in podman's folder
 * `bundle`; undefined: nothing. Throws E_TIMEOUT where the runtime does not tell.
 */
export async function leftoverOf(
  id: string,
  bundle: string,
  run: Run,
  root: string,
): Promise<Leftover | undefined> {
  const runtime = runtimes.find((name) => existsSync(join(root, 'run', name, id)));
  if (runtime === undefined)
    return existsSync(rootOf(bundle)) ? { runtime: 'crun', runs: false } : undefined;
  const said = await run(runtime, ['state', id]);
  if (said?.status === undefined) throw silent(runtime, id);
  // A runtime that was killed, too, may have left a folder without a state.
  if (said.status !== 0) return { runtime, runs: false };
  const { success, output } = v.safeParse(v.pipe(v.string(), v.parseJson(), state), said.stdout);
  return { runtime, runs: !success || output.status !== 'stopped' };
}

/**
 * Ends it, with the processes that it may have. `bundle`: podman's folder of the container, if it has one. Throws
 * E_HOST where a mount stays, Node's error.
 */
export async function endLeftover(
  id: string,
  bundle: string | undefined,
  run: Run,
  root: string,
): Promise<void> {
  for (const path of await rootMountsOf(id, root)) {
    const done = await run('umount', ['-l', path]);
    if (done?.status !== 0) throw stays(path);
    await rmdir(path).catch(() => undefined);
  }
  if (bundle !== undefined) await rmdir(rootOf(bundle)).catch(() => undefined);
  for (const runtime of runtimes)
    await run(runtime, ['delete', '--force', id], { timeoutMs: endMs });
}

/**
 * The root file system, which runc mounts for CRIU in its folder of the container, and crun in that of podman. With
 * that mount in it, the end of runc's folder would be that of the files.
 */
async function rootMountsOf(id: string, root: string): Promise<string[]> {
  const points = (await mountsOf('self', root)).map(({ point }) => point);
  return points.filter((point) => point.endsWith('/criu-root') && point.includes(`/${id}/`));
}

/** Nobody may end what may run. */
function silent(runtime: string, id: string): KfdError {
  return new KfdError('E_TIMEOUT', `${runtime}: did not tell the state of ${id}`, {
    hint: `see "${runtime} state ${id}", then repeat`,
  });
}

function stays(path: string): KfdError {
  return new KfdError('E_HOST', `${path}: a killed restore has left this mount, and it stays`, {
    hint: `umount ${path}`,
  });
}
