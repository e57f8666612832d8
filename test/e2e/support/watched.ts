/** A running session as an operator sees it: by kfd-checkpoint sessions, watch and cancel. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { basename, dirname } from 'node:path';
import { run, until } from './command.js';
import type { Container } from './container.js';
import { type Operation, sessionThat } from './session.js';

/** What is looked at of proto/control.proto's SessionStatus. */
interface Status {
  readonly operation: string;
  readonly criu_pid: number;
  readonly container_id?: string;
  readonly bytes_done: number;
  readonly bytes_total: number;
  readonly result?: { readonly outcome: string; readonly code: string; readonly message: string };
}

class Watch {
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  #text = '';
  complaint = '';

  constructor(criu: number) {
    const words = ['watch', String(criu), '--format', 'json'];
    this.#child = spawn('kfd-checkpoint', words, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#closed = once(this.#child, 'close');
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#text += text;
    });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.complaint += text;
    });
  }

  get statuses(): Status[] {
    return this.#text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Status);
  }

  async end(): Promise<number | null> {
    await this.#closed;
    return this.#child.exitCode;
  }
}

/**
 * Waits until contents of `job` move, looks at that, then cancels. Call the result when the engine has failed: it
 * asserts that whoever watched was told.
 */
export async function cancelWhileMoving(
  job: Container,
  operation: Operation,
  reason: string,
): Promise<() => Promise<void>> {
  const { criu } = await sessionThat(
    job,
    operation,
    operation === 'dump' ? 'draining' : 'uploading',
  );
  const watch = new Watch(criu);
  const rising = () => new Set(watch.statuses.map((status) => status.bytes_done)).size > 2;
  await until(`rising bytes of session ${criu}`, rising);
  const own = watch.statuses.at(-1);
  if (operation === 'dump') {
    const { sessions } = JSON.parse(await run('kfd-checkpoint', 'sessions', '--format', 'json'));
    const listed = (sessions as Status[]).map((status) => [status.criu_pid, status.container_id]);
    assert.ok(listed.some(([pid, id]) => pid === criu && id === own?.container_id));
  }
  assert.equal(own?.operation, operation === 'dump' ? 'checkpoint' : 'restore');
  assert.equal(own?.container_id, basename(dirname(job.bundle)));
  assert.ok(own.bytes_done < own.bytes_total, 'it ended before it could be cancelled');
  await run('kfd-checkpoint', 'cancel', String(criu), '--reason', reason);
  return async () => {
    assert.equal(await watch.end(), 1, watch.complaint);
    const { error } = JSON.parse(watch.complaint);
    assert.equal(error.message, `session: cancelled: ${reason}`);
    const done = watch.statuses.map((status) => status.bytes_done);
    assert.deepEqual(
      done,
      done.toSorted((a, b) => a - b),
    );
    const { outcome, code, message } = watch.statuses.at(-1)?.result ?? {};
    assert.equal(outcome, operation === 'dump' ? 'abandoned' : 'failed');
    assert.equal(code, 'E_CANCELLED');
    assert.equal(message, `session: cancelled: ${reason}`);
  };
}
