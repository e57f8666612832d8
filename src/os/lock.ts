/**
 * Locks between processes of this host. The kernel gives one back when its process has ended, however it ends. The
 * program flock(1) of util-linux or busybox takes it: it locks the open file that it shares with this process.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, promises } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isMissing, KfdError } from '../errors.js';
import { processName, processNameIfAny } from './ancestors.js';
import { missing } from './exec.js';
import { readTextIfAny } from './files.js';

const stepMs = 50;
/** The longest name that is believed to be one of a process. */
const maxName = 64;

export class Lock {
  readonly path: string;
  readonly #handle: promises.FileHandle;

  private constructor(path: string, handle: promises.FileHandle) {
    this.path = path;
    this.#handle = handle;
  }

  /** The lock, if nobody has it. Makes missing folders. Throws E_HOST without flock(1), E_IO, Node's error. */
  static async tryTake(path: string): Promise<Lock | undefined> {
    await promises.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    for (;;) {
      const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants;
      const handle = await promises.open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
      try {
        const isTaken = await flock(handle.fd);
        // Whoever had it may have removed the file meanwhile: then the lock is one of no name.
        if (isTaken && !(await isAt(path, handle))) {
          await handle.close();
          continue;
        }
        if (!isTaken) {
          await handle.close();
          return undefined;
        }
        await handle.truncate(0);
        await handle.write(`${processName(process.pid)}\n`, 0);
        return new Lock(path, handle);
      } catch (error) {
        await handle.close().catch(() => undefined);
        throw error;
      }
    }
  }

  /** The same, for whoever waits until `isOver` says that it is of no use any more. */
  static async take(path: string, isOver: () => boolean): Promise<Lock | undefined> {
    for (;;) {
      const lock = await Lock.tryTake(path);
      if (lock !== undefined || isOver()) return lock;
      await delay(stepMs);
    }
  }

  /** The descriptor. A child that gets it keeps the lock as long as it lives. */
  get fd(): number {
    return this.#handle.fd;
  }

  /** Gives it back. A child that has the descriptor keeps it. */
  async release(): Promise<void> {
    await this.#handle.close();
  }

  /** Gives it back for good: the file goes, too. */
  async remove(): Promise<void> {
    await promises.rm(this.path, { force: true });
    await this.release();
  }
}

/** Sends SIGKILL to the process that has taken the lock, if it lives. Throws Node's error. */
export async function killHolder(path: string): Promise<void> {
  const text = await readTextIfAny(path, maxName);
  const [, name, pid] = /^((\d{1,9})-\d+)\n$/.exec(text ?? '') ?? [];
  if (name === undefined || Number(pid) === process.pid) return;
  // The name has the start time, so that no other process with this pid is hit.
  if (processNameIfAny(Number(pid)) === name) process.kill(Number(pid), 'SIGKILL');
}

async function flock(fd: number): Promise<boolean> {
  const child = spawn('flock', ['-xn', '3'], { stdio: ['ignore', 'ignore', 'ignore', fd] });
  let status: number | null;
  try {
    [status] = (await once(child, 'close')) as [number | null];
  } catch (error) {
    throw missing('flock', error as Error);
  }
  if (status === 0 || status === 1) return status === 0;
  throw new KfdError('E_IO', `flock: ended with status ${status}`, {
    hint: 'run "flock -xn /run/x true" to see what it says',
  });
}

async function isAt(path: string, handle: promises.FileHandle): Promise<boolean> {
  const own = await handle.stat();
  try {
    const there = await promises.lstat(path);
    return there.ino === own.ino && there.dev === own.dev;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}
