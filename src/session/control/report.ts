/** The status of a running session, for clients. */

import { readFileSync, readlinkSync } from 'node:fs';
import { KfdError } from '../../errors.js';
import type { TransferProgress } from '../contents/transfers.js';
import type { SessionContext } from '../context.js';
import {
  type Cancellable,
  type Controlled,
  type SessionResult,
  type SessionStatus,
  tooLate,
} from './types.js';

/** The longest reason, characters. */
const maxReason = 1024;
/** Podman's and CRI's container ids. */
const containerId = /(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/g;

export class ControlledSession implements Controlled {
  readonly #context: SessionContext;
  readonly #session: Cancellable;
  #containerId: string | undefined;
  #cancelled = false;
  #result: SessionResult | null = null;

  constructor(context: SessionContext, session: Cancellable) {
    this.#context = context;
    this.#session = session;
  }

  status(): SessionStatus {
    const { request, phases, transfers, logPath } = this.#context;
    // Read before the phases: transfers are a part of the time of all.
    const transferUs = transfers.elapsedUs;
    const { name: phase, us, totalUs } = phases.current;
    const files = transfers.progress();
    return {
      operation: request.operation === 'dump' ? 'OPERATION_DUMP' : 'OPERATION_RESTORE',
      criu_pid: request.criuPid,
      container_id: this.#idOfContainer(),
      phase,
      elapsed_us: totalUs,
      phase_us: us,
      transfer_us: transferUs,
      ...sum(files),
      processes: this.#session.processes.length,
      gpus: byGpu(files),
      files: files.map((file) => ({
        name: file.name,
        process: file.process,
        render_node: file.renderNode,
        ...sum([file]),
        waiting: file.waiting,
        engine_reason: file.engineReason ?? '',
      })),
      log_path: logPath,
      cancelled: this.#cancelled,
      result: this.#result,
    };
  }

  cancel(reason: string): void {
    if (this.#result !== null) {
      throw tooLate('it has ended');
    }
    // It goes to logs and terminals.
    const text = reason.slice(0, maxReason).replace(/\p{C}/gu, '?').trim();
    const why = text === '' ? 'cancelled' : `cancelled: ${text}`;
    this.#session.cancel(new KfdError('E_CANCELLED', `session: ${why}`));
    this.#cancelled = true;
    this.#context.log.warn({ reason: text }, 'cancelled');
  }

  /** The session has ended. */
  end(result: SessionResult): void {
    this.#result = result;
  }

  /** Found on the first request, then kept: the processes may end before the session. */
  #idOfContainer(): string {
    const places = [
      () => readlinkSync(this.#context.image),
      ...this.#session.processes.map(
        ({ pid }) =>
          () =>
            readFileSync(`/proc/${pid}/cgroup`, 'utf8'),
      ),
    ];
    for (const read of places) this.#containerId ??= idIn(read);
    return this.#containerId ?? '';
  }
}

/** The innermost one: a container engine may itself run in a container. */
function idIn(read: () => string): string | undefined {
  try {
    return read().match(containerId)?.at(-1);
  } catch {
    return undefined; // it has ended
  }
}

function sum(files: readonly TransferProgress[]) {
  return {
    bytes_done: files.reduce((bytes, { done }) => bytes + done, 0),
    bytes_total: files.reduce((total, { bytes }) => total + bytes, 0),
  };
}

function byGpu(files: readonly TransferProgress[]): SessionStatus['gpus'] {
  const nodes = [...new Set(files.map(({ renderNode }) => renderNode))];
  return nodes.map((node) => ({
    render_node: node,
    ...sum(files.filter(({ renderNode }) => renderNode === node)),
  }));
}
