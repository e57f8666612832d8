/** One GPU container under crun, saved and brought back, timed, with its sessions' own accounts. */

import { rmSync } from 'node:fs';
import { archivePath } from '../e2e/support/archive.js';
import { Container } from '../e2e/support/container.js';
import { type LogLine, sessionEnd } from '../e2e/support/session.js';
import { seconds } from './timing.js';

export interface Trip {
  readonly checkpoint_s: number;
  readonly restore_s: number;
  readonly dump: LogLine;
  readonly restore: LogLine;
  /** Whether the program found its buffers as they were. */
  readonly right: boolean;
}

const minutes = 60;

/** There and back once, through an uncompressed archive. */
export async function trip(worker: readonly string[]): Promise<Trip> {
  const job = await Container.start({ engine: 'crun', worker });
  const archive = archivePath('crun', 'trip.tar');
  const podman = (...args: string[]) => seconds('podman', 'container', ...args);
  // --keep: CRIU's logs, which name the sessions'.
  const flags = ['--keep', '--compress', 'none', '--export', archive];
  const checkpoint_s = await podman('checkpoint', ...flags, job.name);
  const dump = await sessionEnd(job, 'dump');
  await job.remove();
  const restore_s = await podman('restore', '--keep', '--import', archive);
  const restore = await sessionEnd(job, 'restore');
  const answer = await job.control.ask('verify', 10 * minutes);
  await job.remove();
  rmSync(archive);
  return { checkpoint_s, restore_s, dump, restore, right: answer.startsWith('verified ') };
}
