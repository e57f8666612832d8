/**
 * A session that has started before CRIU asks for one (src/session/spare.ts), for the checkpoint or restore of a
 * migration. Without it CRIU's launcher starts its own, and the container stands still meanwhile.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { HostSetting } from './setting.js';

/** What a session without a log prints goes to a file there: native/launcher/daemon.cc. */
const logFolder = '/var/log/kfd-checkpoint';

/**
 * A session that waits ends with this process (prctl(2), PR_SET_PDEATHSIG), by the signal that a session at work
 * ignores. It has a descriptor for each buffer: as many as native/launcher/daemon.cc allows.
 */
const script = `umask 077; ulimit -n "$(cat /proc/sys/fs/nr_open)" 2>/dev/null
mkdir -p "$1" && log=$1/session-stderr.log && shift && exec "$@" 2>>"$log"`;

export class SpareSession {
  readonly #child: ChildProcess | undefined;

  /** `self`: this program, of whose installation the session is. Where it cannot be started there is none. */
  static start([node, ...before]: HostSetting['self'], logs = logFolder): SpareSession {
    const session = join(before.at(-1) ?? '', '../../session/main.js');
    if (!existsSync(session)) return new SpareSession(undefined);
    const words = ['--pdeathsig', 'USR2', 'sh', '-c', script, 'sh', logs, node, session, 'spare'];
    const child = spawn('setpriv', words, { detached: true, cwd: '/', stdio: 'ignore' });
    child.on('error', () => undefined);
    child.unref();
    return new SpareSession(child);
  }

  private constructor(child: ChildProcess | undefined) {
    this.#child = child;
  }

  /** One that still waits ends. One at work goes on. */
  release(): void {
    this.#child?.kill('SIGUSR2');
  }
}
