/**
 * A session that has started before CRIU asks for one (src/session/spare.ts), for the checkpoint or restore of a
 * migration. Without it CRIU's launcher starts its own, and the container stands still meanwhile.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { HostSetting } from './setting.js';

/**
 * A session that waits ends with this process (prctl(2), PR_SET_PDEATHSIG), by the signal that a session at work
 * ignores. It has a descriptor for each buffer: as many as native/launcher/daemon.cc allows.
 */
const script = `umask 077; ulimit -n "$(cat /proc/sys/fs/nr_open)" 2>/dev/null; exec "$@"`;

export class SpareSession {
  readonly #child: ChildProcess;

  /** `self`: this program, of whose installation the session is. Where it cannot be started there is none. */
  static start([node, ...before]: HostSetting['self']): SpareSession {
    const session = join(before.at(-1) ?? '', '../../session/main.js');
    const words = ['--pdeathsig', 'USR2', 'sh', '-c', script, 'sh', node, session, 'spare'];
    const child = spawn('setpriv', words, { detached: true, cwd: '/', stdio: 'ignore' });
    child.on('error', () => undefined);
    child.unref();
    return new SpareSession(child);
  }

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** One that still waits ends. One at work goes on. */
  release(): void {
    this.#child.kill('SIGUSR2');
  }
}
