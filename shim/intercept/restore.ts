/** A container's restore, which is its first Start, until it is answered. */

import type { Response } from '../../src/ttrpc/envelope.js';
import { cancelUntilEnded } from './cancelling.js';
import type { Helper } from './helper.js';
import type { Upstream } from './interception.js';
import { keepReaders } from './pipes.js';

export class Restore {
  readonly #context: { helper: Helper; report: (error: unknown) => void };
  readonly #create: Buffer;
  readonly #ended = new AbortController();
  #isGivenUp = false;

  /** `create`: the container's CreateTaskRequest. */
  constructor(context: { helper: Helper; report: (error: unknown) => void }, create: Buffer) {
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
    return answer.finally(() => {
      this.#ended.abort();
      closeReaders();
    });
  }

  /**
   * Forwards Kill with SIGKILL, and cancels the restore. containerd's CRI kills the task of a kubelet that has gone
   * (`internal/cri/server/container_start.go:StartContainer@2.1`); about Start the shim hears nothing then. The stock
   * shim holds its lock until Start ends (`cmd/containerd-shim-runc-v2/process/init.go:Kill@2.1`). So the deadline is
   * not passed on: a late Kill would do nothing, and CRI could not remove the task.
   */
  kill(upstream: Upstream): Promise<Response> {
    this.#giveUp('killed');
    return upstream.forwardToEnd(
      () => undefined,
      (response) => Promise.resolve(response),
    );
  }

  #giveUp(...how: readonly 'killed'[]): void {
    if (this.#isGivenUp || this.#ended.signal.aborted) return;
    this.#isGivenUp = true;
    void cancelUntilEnded(
      this.#context,
      ['cancel-restore', ...how],
      this.#create,
      this.#ended.signal,
    );
  }
}
