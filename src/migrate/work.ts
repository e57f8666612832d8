/**
 * Programs of a migration that must not be forgotten: podman checkpoints or restores, and the process that began it
 * may be killed meanwhile. Whoever comes next can wait for its end, or end it.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, promises } from 'node:fs';
import { dirname } from 'node:path';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { asKfdError, KfdError } from '../errors.js';
import { missing } from '../os/exec.js';
import { readTextIfAny } from '../os/files.js';
import { Lock } from '../os/lock.js';
import type { Command } from './engine.js';

/**
 * The shell writes the number of its process group into the lock and keeps the lock for the program. The program and
 * what stays of it (conmon) do not have the descriptor. Where podman alone is killed, the runtime and CRIU go on in its
 * process group (field 5 of proc_pid_stat(5)), and end the container later: they are waited for, too.
 */
const script = `others() {
  for file in /proc/[0-9]*/stat; do
    read -r line <$file || continue
    set -- \${line##*) }
    [ "$3" != $$ ] || [ "$1" = Z ] || [ $file = /proc/$$/stat ] || return 0
  done 2>/dev/null
  return 1
}
echo $$ >&3
"$@" 3>&-
status=$?
while others; do sleep 0.2; done
exit $status`;

/** How long a program that waits for words may take to remove its files, when nobody is there any more. */
export const leaveMs = 5000;
/** How long a killed program may take to end, and how often it is looked at. */
const endMs = 5000;
const stepMs = 100;

/** What `Work` gives a program beside its outputs: a file, or the end of a line. */
export const ownDescriptor = 4;
/** The path of that file, for a program that takes names alone. */
export const ownFile = `/proc/self/fd/${ownDescriptor}`;

export interface WorkOptions {
  /** Becomes the program's `ownDescriptor`. */
  readonly descriptor?: number;
  /** Of its log, which takes both outputs: a pipe would break when this process is killed. */
  readonly log: string;
}

/** A program that waits for words. */
export interface Prompted {
  readonly line: Duplex;
  /** The exit status; undefined when a signal has ended it. */
  readonly ended: Promise<number | undefined>;
}

export class Work {
  readonly #path: string;

  /** `path`: the lock. All processes of one side name the same one. */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Runs a program to its end, in a process group of its own. Resolves with its exit status; undefined when a signal
   * has ended it. Throws E_IO where another one is at work.
   */
  async run(command: Command, { descriptor, log }: WorkOptions): Promise<number | undefined> {
    const { ended } = await this.#begin(command, log, descriptor ?? 'ignore');
    return ended;
  }

  /** The same for a program that waits for words: its `ownDescriptor` is the other end of `line`. */
  async prompt(command: Command, log: string): Promise<Prompted> {
    const { child, ended } = await this.#begin(command, log, 'pipe');
    const line = child.stdio[ownDescriptor] as Duplex;
    // Its end says that nobody is there.
    line.on('error', () => undefined);
    return { line, ended };
  }

  async #begin(
    command: Command,
    log: string,
    fourth: number | 'ignore' | 'pipe',
  ): Promise<{ readonly child: ChildProcess; readonly ended: Promise<number | undefined> }> {
    await promises.mkdir(dirname(log), { recursive: true, mode: 0o700 });
    const { O_WRONLY, O_CREAT, O_TRUNC } = constants;
    const output = await promises.open(log, O_WRONLY | O_CREAT | O_TRUNC, 0o600);
    try {
      const lock = await Lock.tryTake(this.#path);
      if (lock === undefined) throw busy(this.#path);
      const child = spawn('sh', ['-c', script, 'sh', ...command], {
        detached: true,
        stdio: ['ignore', output.fd, output.fd, lock.fd, fourth],
      });
      const closed = once(child, 'exit') as Promise<[number | null]>;
      // From now on the child has the lock.
      await once(child, 'spawn')
        .finally(() => lock.release())
        .catch((error: Error) => {
          closed.catch(() => undefined);
          throw missing('sh', error);
        });
      return { child, ended: closed.then(([status]) => status ?? undefined) };
    } finally {
      await output.close();
    }
  }

  /**
   * Waits until no program is at work, whoever began it. `isOver`: it has had time enough and is killed. Throws E_HOST
   * where a killed one does not end: nothing may be concluded from the container's state then.
   */
  async settle(isOver: () => boolean): Promise<void> {
    const lock = (await Lock.take(this.#path, isOver)) ?? (await this.#end());
    if (lock === undefined) throw busy(this.#path);
    await lock.release();
  }

  /** Kills the program until it has gone. A shell that has only just begun does not name its group yet. */
  async #end(): Promise<Lock | undefined> {
    for (let left = endMs / stepMs; left > 0; left -= 1) {
      await this.#kill();
      const lock = await Lock.tryTake(this.#path);
      if (lock !== undefined) return lock;
      await delay(stepMs);
    }
    return undefined;
  }

  async #kill(): Promise<void> {
    // Its own lock proves that the group is still the one that is written there.
    const text = await readTextIfAny(this.#path, 64);
    const group = /^(\d{1,9})\n/.exec(text ?? '')?.[1];
    if (group === undefined) return;
    try {
      process.kill(-Number(group), 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}

function busy(path: string): KfdError {
  return new KfdError('E_HOST', `${path}: podman is still at work for this migration`, {
    hint: 'wait for it, or end it, and run the command again',
  });
}

/** The last two lines that a program has printed, for the reason of a failure. Never throws. */
export async function lastLines(log: string): Promise<string[]> {
  try {
    const handle = await promises.open(log, 'r');
    try {
      const { size } = await handle.stat();
      const room = Buffer.alloc(Math.min(size, 8192));
      await handle.read(room, 0, room.length, size - room.length);
      return room.toString('utf8').trimEnd().split('\n').slice(-2);
    } finally {
      await handle.close();
    }
  } catch (error) {
    return [asKfdError(error, log).message];
  }
}
