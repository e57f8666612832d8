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

/** Saves a container uncompressed; `restore` can then bring it back any number of times. */
export class Traveller {
  readonly job: Container;
  readonly archive: string;
  readonly checkpoint_s: number;
  readonly dump: LogLine;

  private constructor(job: Container, archive: string, checkpoint: number, dump: LogLine) {
    this.job = job;
    this.archive = archive;
    this.checkpoint_s = checkpoint;
    this.dump = dump;
  }

  static async save(worker: readonly string[]): Promise<Traveller> {
    const job = await Container.start({ engine: 'crun', worker });
    const archive = archivePath('crun', `${job.name}.tar`);
    const flags = ['--keep', '--compress', 'none', '--export', archive]; // --keep: CRIU's logs
    const took = await seconds('podman', 'container', 'checkpoint', ...flags, job.name);
    return new Traveller(job, archive, took, await sessionEnd(job, 'dump'));
  }

  /** Replaces the container of the last restore; seconds and the session's account. */
  async restore(): Promise<{ took: number; session: LogLine }> {
    await this.job.remove();
    const took = await seconds(
      'podman',
      'container',
      'restore',
      '--keep',
      '--import',
      this.archive,
    );
    return { took, session: await sessionEnd(this.job, 'restore') };
  }

  async right(): Promise<boolean> {
    return (await this.job.control.ask('verify', 10 * minutes)).startsWith('verified ');
  }

  async forget(): Promise<void> {
    await this.job.remove();
    rmSync(this.archive);
  }
}

/** There and back once. */
export async function trip(worker: readonly string[]): Promise<Trip> {
  const traveller = await Traveller.save(worker);
  const { took, session } = await traveller.restore();
  const right = await traveller.right();
  await traveller.forget();
  return {
    checkpoint_s: traveller.checkpoint_s,
    restore_s: took,
    dump: traveller.dump,
    restore: session,
    right,
  };
}
