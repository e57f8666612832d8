/** A container's restore, which is its first Start, until it is answered. */

import { constants } from 'node:os';
import { bytesField, numberField } from '../../src/protobuf.js';
import { type Response, statusCode } from '../../src/ttrpc/envelope.js';
import { cancelUntilEnded } from './cancelling.js';
import type { Helper } from './helper.js';
import type { Upstream } from './interception.js';
import { keepReaders } from './pipes.js';

interface Context {
  readonly helper: Helper;
  readonly report: (error: unknown) => void;
}

export class Restore {
  readonly #id: string;
  readonly #context: Context;
  readonly #create: Buffer;
  readonly #ended = new AbortController();
  #answer: Promise<Response> | undefined;
  #isGivenUp = false;

  /** `create`: the container's CreateTaskRequest. */
  constructor(id: string, context: Context, create: Buffer) {
    this.#id = id;
    this.#context = context;
    this.#create = create;
  }

  /**
   * Forwards Start. `finish` completes the answer. `outputs`: where the container's output goes.
   *
   * A caller's end does not kill runc: CRIU would work on, with tasks that nobody knows. The restore is cancelled
   * instead, because the caller's pipes are gone and a new containerd takes the container for a failed one.
   */
  run(
    upstream: Upstream,
    outputs: readonly string[],
    finish: (response: Response) => Promise<Response>,
  ): Promise<Response> {
    const closeReaders = keepReaders(outputs);
    const answer = upstream.forwardToEnd(
      () => this.#giveUp(),
      (response) => {
        this.#ended.abort();
        return finish(response);
      },
    );
    // A damaged answer ends the call without finishing it.
    this.#answer = answer.finally(() => {
      this.#ended.abort();
      closeReaders();
    });
    return this.#answer;
  }

  /**
   * Forwards Kill with SIGKILL, and cancels the restore. The stock shim holds its lock until Start ends
   * (`cmd/containerd-shim-runc-v2/process/init.go:Kill@2.1`). So the deadline is not passed on.
   */
  kill(upstream: Upstream): Promise<Response> {
    this.#giveUp('ended');
    return upstream.forwardToEnd(
      () => undefined,
      (response) => Promise.resolve(response),
    );
  }

  /**
   * Cancels the restore, and forwards Delete after it. containerd's CRI deletes the task of a kubelet that has gone
   * (`internal/cri/server/container_start.go:StartContainer@2.1`). About Start the shim hears nothing then, and nobody
   * kills a task that has no pid yet (`client/task_opts.go:WithProcessKill@2.1`).
   */
  async delete(upstream: Upstream): Promise<Response> {
    this.#giveUp('ended');
    const started = await this.#answer?.catch(() => undefined);
    // It was too late to cancel. The stock shim deletes no task that runs.
    if (started?.code === statusCode.ok) await this.#end(upstream);
    return upstream.forward();
  }

  async #end(upstream: Upstream): Promise<void> {
    const id = bytesField(1, this.#id);
    const signal = numberField(3, constants.signals.SIGKILL);
    try {
      await upstream.ask('Kill', Buffer.concat([id, signal, numberField(4, 1)]));
      await upstream.ask('Wait', id);
    } catch (error) {
      this.#context.report(error);
    }
  }

  #giveUp(...how: readonly 'ended'[]): void {
    if (this.#isGivenUp || this.#ended.signal.aborted) return;
    this.#isGivenUp = true;
    const task = ['cancel-restore', ...how] as const;
    void cancelUntilEnded(this.#context, task, this.#create, this.#ended.signal);
  }
}
