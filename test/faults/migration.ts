/** A container that moves to a second storage of podman, from row to row: exactly one of both runs it in the end. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { removeDeadFiles } from '../../src/migrate/leftovers.js';
import { placesBelow } from '../../src/migrate/places.js';
import { run as runProgram } from '../../src/os/exec.js';
import { attempt, until } from '../e2e/support/command.js';
import type { Engine } from '../e2e/support/container.js';
import { SecondHost } from '../e2e/support/second-host.js';
import type { OperationName, Row } from './row.js';
import type { Judged, Subject } from './subject.js';
import { Job } from './support/job.js';
import { objectsLeft } from './support/leftovers.js';
import { find } from './support/victims.js';

const journal = '/var/lib/kfd-checkpoint/migrations';
const run = '/run/kfd-checkpoint/migrations';
const { kept } = placesBelow('/');
/** Seconds. Time for a restore on a machine that does other work, too. */
const leaseS = 30;
/** Where it must be over: such rows end soon. */
const shortLeaseS = 10;
const leaseOver = /\.(over|acted|doubt)$/;
/** The lease, what the source waits longer, and a restore. */
const endS = 120;

export class Migration implements Subject {
  readonly limitS = 240;
  readonly #engine: Engine;
  #second: SecondHost | undefined;
  #job: Job | undefined;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async begin(name: OperationName, { steps }: Row): Promise<{ words: string[]; job: Job }> {
    this.#second ??= SecondHost.open(`faults-${this.#engine}`, 'relay');
    const job = await this.#running(this.#second);
    const precopy = name === 'migrate-ahead' ? '1' : '0';
    const ends = steps.some(({ stage }) => stage !== undefined && leaseOver.test(stage));
    const lease = ends ? shortLeaseS : leaseS;
    const options = ['--lease', `${lease}`, '--with-image', '--precopy', precopy];
    const words = this.#second.words(job.container.name, ...options);
    return { words: [...words], job };
  }

  async judge(): Promise<Judged> {
    const [job, second] = [this.#job, this.#second];
    if (job === undefined || second === undefined) throw new Error('there is no container');
    const { name } = job.container;
    const problems: string[] = [];
    // The same command goes on with what is recorded.
    for (let left = 3; left > 0 && unfinished().length > 0; left -= 1)
      await attempt('timeout', `${endS}`, ...second.words(name));
    const atWork = () => find('target', 0) !== undefined || find('guard', 0) !== undefined;
    await until('the end of target and guard', () => !atWork(), endS).catch((error: Error) => {
      problems.push(error.message);
    });
    // Nobody has to come for memory: what waits for the end of the target releases it.
    await until('free memory', () => !names(run).some(isMemory), endS).catch((error: Error) => {
      problems.push(error.message);
    });
    const [here, there] = [await job.status(), await second.state(name)];
    const runsHere = here === 'running' && there === 'none';
    const runsThere = here === 'none' && there === 'running';
    if (runsHere || runsThere) {
      const wrong = await job.wrong();
      if (wrong !== undefined) problems.push(wrong);
    } else problems.push(`${here} here, ${there} there`);
    // What killed processes have left, the next migration removes.
    const places = placesBelow('/');
    await removeDeadFiles(places, runProgram);
    problems.push(...filesLeft().map((path) => `left: ${path}`));
    return { outcome: runsHere ? 'runs here' : runsThere ? 'runs there' : 'lost', problems };
  }

  async forget(): Promise<void> {
    await this.#job?.remove();
    this.#job = undefined;
    await this.#second?.close();
    this.#second = undefined;
    for (const name of names(run).filter(isMemory)) await attempt('umount', '-l', `${run}/${name}`);
    for (const folder of [journal, run, kept]) await attempt('rm', '-rf', folder);
  }

  /** The container runs here. One that has moved is replaced: its id is that of the second storage now. */
  async #running(second: SecondHost): Promise<Job> {
    const job = this.#job;
    if (job !== undefined && (await job.status()) === 'running') {
      await job.settled();
      return job;
    }
    if (job !== undefined) {
      await second.podman('rm', '-f', '-t', '0', job.container.name);
      await job.remove();
      const left = await objectsLeft();
      if (left.length > 0) throw new Error(`before a row: ${left.join(', ')}`);
    }
    this.#job = await Job.start(this.#engine);
    return this.#job;
  }
}

function names(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

const isMemory = (name: string) => name.endsWith('.memory');

/** Records of sources. */
function unfinished(): string[] {
  return names(journal).filter((name) => name.endsWith('.source.json'));
}

/** The socket and the lock of a source that was killed before anything was recorded. */
const ofKilledSource = /^[0-9a-f]{32}\.source$|^[0-9a-f]{64}\.lock$/;

/** A target keeps "owned" where the last word of the source was lost: src/migrate/README.md. */
function filesLeft(): string[] {
  const isOwned = (name: string) => readFileSync(`${journal}/${name}`, 'utf8').includes('"owned"');
  return [
    ...unfinished().map((name) => `${journal}/${name}`),
    ...names(journal).filter((name) => name.endsWith('.target.json') && !isOwned(name)),
    ...names(run)
      .filter((name) => !ofKilledSource.test(name))
      .map((name) => `${run}/${name}`),
    ...names(placesBelow('/').guardCgroups)
      .filter((name) => name.startsWith('migrate-'))
      .map((name) => `cgroup ${name}`),
    ...names(kept).map((name) => `${kept}/${name}`),
  ];
}
