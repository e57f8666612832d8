/** A session that is none, on a real control socket below a folder. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createLogger } from '../../src/log.js';
import { ControlSocket } from '../../src/session/control/socket.js';
import {
  type Controlled,
  type SessionResult,
  type SessionStatus,
  tooLate,
} from '../../src/session/control/types.js';
import { temporaryFolder } from './paths.js';

const mib = 2 ** 20;

export const running: SessionStatus = {
  operation: 'OPERATION_DUMP',
  criu_pid: 4711,
  container_id: 'ab'.repeat(32),
  phase: 'overlap',
  elapsed_us: 1_500_000,
  phase_us: 500_000,
  bytes_done: 3 * mib,
  bytes_total: 12 * mib,
  processes: 2,
  gpus: [{ render_node: '/dev/dri/renderD128', bytes_done: 3 * mib, bytes_total: 12 * mib }],
  files: [
    {
      name: 'amdgpu-pages-0-0000.img',
      process: 0,
      render_node: '/dev/dri/renderD128',
      bytes_done: 3 * mib,
      bytes_total: 12 * mib,
      waiting: false,
      engine_reason: '',
    },
  ],
  log_path: '/var/log/kfd-checkpoint/x.log',
  transfer_us: 1_000_000,
  cancelled: false,
  result: null,
};

export class FakeSession implements Controlled {
  readonly reasons: string[] = [];
  current: SessionStatus;
  isTooLate = false;
  readonly #socket: ControlSocket;

  private constructor(status: SessionStatus, logFile: string) {
    this.current = status;
    this.#socket = new ControlSocket(this, createLogger({ file: logFile }));
  }

  /** Listens as the session of CRIU `status.criu_pid` below `root`. */
  static async start(root: string, status: SessionStatus = running): Promise<FakeSession> {
    const directory = FakeSession.directory(root, status.criu_pid);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const session = new FakeSession(status, join(root, 'log'));
    await session.#socket.listen(directory);
    return session;
  }

  static directory(root: string, criuPid: number): string {
    return join(root, 'run/kfd-checkpoint', String(criuPid));
  }

  status(): SessionStatus {
    return this.current;
  }

  cancel(reason: string): void {
    if (this.isTooLate) throw tooLate('the image is complete');
    this.reasons.push(reason);
    this.current = { ...this.current, cancelled: true };
  }

  async end(result: SessionResult): Promise<void> {
    this.current = { ...this.current, result };
    await this.#socket.end();
  }
}

export const sealed: SessionResult = { outcome: 'sealed', success: true, code: '', message: '' };

/** A session in a folder of its own; ends with the test. */
export async function fakeSession(t: TestContext, status = running) {
  const root = await temporaryFolder(t);
  const session = await FakeSession.start(root, status);
  t.after(() => session.end(sealed));
  return { root, session };
}
