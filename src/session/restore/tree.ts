/**
 * The tasks of a restore. CRIU ends them when it fails. A CRIU that is killed leaves them waiting for ever, and with
 * them the OCI runtime, whose socket they have inherited. A pid is never killed by itself: it may be another
 * process's by now.
 */

import { readdirSync, statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { type Descriptor, native } from '../../native.js';
import { lineage, type ProcessStat, processNameIfAny, processStats } from '../../os/ancestors.js';

/** Tasks that are forked while others are ended are found by the next look. */
const looks = 20;
const betweenMs = 50;

/** A file, whatever its names. */
interface FileId {
  readonly dev: number;
  readonly ino: number;
}

export class RestoreTree {
  /** CRIU and its ancestors, to which its children go when it dies. */
  readonly #above: ReadonlySet<string>;
  readonly #criuBegan: number;
  /** Before a task becomes the application, it runs CRIU's program. */
  readonly #program: FileId | undefined;
  readonly #image: FileId | undefined;
  /** Tasks that have sent a message, by pid. */
  readonly #known = new Map<number, Descriptor>();

  /** `image`: CRIU's image directory. CRIU still lives. */
  constructor(criuPid: number, image: string) {
    const names = lineage(criuPid);
    this.#above = new Set(names);
    this.#criuBegan = Number(names[0]?.split('-')[1]);
    this.#program = fileId(`/proc/${criuPid}/exe`);
    this.#image = fileId(image);
  }

  /** A task of the tree that waits for an answer. Its pidfd belongs to this object. Throws KFD_IO. */
  meet(pid: number): Descriptor {
    const known = this.#known.get(pid);
    if (known !== undefined && native().isAlive(known)) return known;
    known?.close();
    const pidfd = native().openPidfd(pid);
    this.#known.set(pid, pidfd);
    return pidfd;
  }

  /** Called after CRIU's end: ends what is left of the tree. Returns the pids. */
  async end(): Promise<number[]> {
    const ended = new Set<number>();
    for (let look = 0; look < looks; look++) {
      const left = this.#left();
      if (left.length === 0) break;
      for (const process of left) if (kill(process)) ended.add(process.pid);
      await delay(betweenMs);
    }
    return [...ended];
  }

  close(): void {
    for (const pidfd of this.#known.values()) pidfd.close();
    this.#known.clear();
  }

  /** Parents first: the end of a pid namespace's first process is that of all others. */
  #left(): ProcessStat[] {
    const all = new Map(processStats().map((one) => [one.pid, one]));
    const tops = new Set<ProcessStat>();
    const alone: ProcessStat[] = [];
    for (const [pid, pidfd] of this.#known) {
      const task = all.get(pid);
      if (task === undefined || !native().isAlive(pidfd)) continue;
      const top = this.#topOf(task, all);
      if (this.#isAbove(all.get(top.parent))) tops.add(top);
      else alone.push(task);
    }
    for (const one of all.values()) if (this.#isForkOfCriu(one, all)) tops.add(one);
    const below = [...all.values()].filter((one) => hasAncestor(one, tops, all));
    return [...tops, ...below, ...alone].filter(({ state }) => state !== 'Z' && state !== 'X');
  }

  #topOf(task: ProcessStat, all: ReadonlyMap<number, ProcessStat>): ProcessStat {
    let top = task;
    for (;;) {
      const parent = all.get(top.parent);
      if (parent === undefined || !this.#isYounger(parent)) return top;
      top = parent;
    }
  }

  #isAbove(one: ProcessStat | undefined): boolean {
    return one !== undefined && this.#above.has(`${one.pid}-${one.start}`);
  }

  /** Began after CRIU, and is none of those above it. */
  #isYounger(one: ProcessStat): boolean {
    return Number(one.start) >= this.#criuBegan && !this.#isAbove(one) && one.pid !== process.pid;
  }

  /** A task that has not sent a message, or never will: it runs CRIU's program, with CRIU's image directory open. */
  #isForkOfCriu(one: ProcessStat, all: ReadonlyMap<number, ProcessStat>): boolean {
    if (!this.#isYounger(one) || !this.#isAbove(all.get(one.parent))) return false;
    return same(fileId(`/proc/${one.pid}/exe`), this.#program) && holds(one.pid, this.#image);
  }
}

function hasAncestor(
  one: ProcessStat,
  tops: ReadonlySet<ProcessStat>,
  all: ReadonlyMap<number, ProcessStat>,
): boolean {
  // The table was not read in one moment: a circle is possible.
  let at = all.get(one.parent);
  for (let depth = 0; at !== undefined && depth < all.size; depth++) {
    if (tops.has(at)) return true;
    at = all.get(at.parent);
  }
  return false;
}

/** Once the pidfd is open, an equal name means an equal process. */
function kill({ pid, start }: ProcessStat): boolean {
  let pidfd: Descriptor;
  try {
    pidfd = native().openPidfd(pid);
  } catch {
    return false; // it has ended
  }
  try {
    if (processNameIfAny(pid) !== `${pid}-${start}`) return false;
    native().kill(pidfd);
    return true;
  } finally {
    pidfd.close();
  }
}

function fileId(path: string): FileId | undefined {
  try {
    const { dev, ino } = statSync(path);
    return { dev, ino };
  } catch {
    return undefined; // the process has ended
  }
}

function same(a: FileId | undefined, b: FileId | undefined): boolean {
  return a !== undefined && a.dev === b?.dev && a.ino === b.ino;
}

function holds(pid: number, file: FileId | undefined): boolean {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).some((fd) => same(fileId(`${folder}/${fd}`), file));
  } catch {
    return false; // it has ended
  }
}
