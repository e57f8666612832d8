/** Checkpoints of one container, and the pauses of callers who have gone. */

import { bytesField } from '../../src/protobuf.js';
import { type Call, type Response, statusCode } from '../transport/envelope.js';
import { cancelUntilEnded } from './cancelling.js';
import type { Helper } from './helper.js';
import type { Upstream } from './interception.js';
import { checkpointPath, isPaused, pausedState } from './task-fields.js';
import { ImageDirectory } from './temporary-image.js';

/**
 * How long a caller's pause may be older than its checkpoint, milliseconds. containerd's clients pause a
 * container right before. An older pause belongs to somebody who wanted a paused container.
 */
const ownPauseMs = 30_000;
/** How often to look whether containerd has given up a checkpoint, milliseconds. */
const lookMs = 500;

const givenUp: Response = {
  code: statusCode.cancelled,
  message: 'E_CANCELLED: containerd has given up this checkpoint',
  payload: Buffer.alloc(0),
};

export interface CheckpointContext {
  readonly helper: Helper;
  readonly report: (error: unknown) => void;
  /** Where containerd makes image directories. */
  readonly temporaryFolder: string;
}

export class Checkpoints {
  readonly #id: string;
  readonly #context: CheckpointContext;
  readonly #create: Buffer | undefined;
  #running = 0;
  #paused: Buffer | undefined;
  /** By performance.now(). */
  #pausedAt: number | undefined;
  /** The pause of a caller who has gone. */
  #isAbandoned = false;

  /** `create`: the container's CreateTaskRequest, if it is known. */
  constructor(id: string, context: CheckpointContext, create?: Buffer) {
    this.#id = id;
    this.#context = context;
    this.#create = create;
  }

  /** A StateResponse while a checkpoint runs. The stock shim does not answer State during a checkpoint. */
  get state(): Buffer | undefined {
    return this.#paused;
  }

  /** Forwards Pause. */
  async pause(upstream: Upstream): Promise<Response> {
    const response = await upstream.forward();
    if (response.code === statusCode.ok) this.#pausedAt = performance.now();
    return response;
  }

  /**
   * Forwards Resume without its deadline. A client of containerd whose time is over ends its own pause
   * with a call that has no time left (`client/task.go:Checkpoint@2.1`), and the stock shim would fail it.
   */
  resume(upstream: Upstream): Promise<Response> {
    return upstream.forwardToEnd(
      () => undefined,
      async (response) => this.#resumed(await this.#orResumedLater(response, upstream)),
    );
  }

  #resumed(response: Response): Response {
    if (response.code === statusCode.ok) this.#pausedAt = undefined;
    return response;
  }

  /**
   * CRIU thaws a paused container as soon as it traces the tasks (`criu/seize.c:freeze_processes@4.2`). A
   * CRIU that is killed then leaves one that runs. The stock shim takes it for paused, and runc does not
   * resume it (`libcontainer/container_linux.go:Resume@1.1.5`). So it is paused once more.
   */
  async #orResumedLater(failed: Response, upstream: Upstream): Promise<Response> {
    if (failed.code === statusCode.ok || this.#create === undefined) return failed;
    try {
      const { code, payload } = await upstream.ask('State', bytesField(1, this.#id));
      if (code !== statusCode.ok || !isPaused(payload)) return failed;
      await this.#context.helper(['pause-again'], this.#create);
      return await upstream.ask('Resume', bytesField(1, this.#id));
    } catch (error) {
      this.#context.report(error);
      return failed;
    }
  }

  /**
   * Forwards Checkpoint. When the caller goes, the session is cancelled, and afterwards the caller's pause
   * is ended. `finish` completes the answer.
   */
  async run(
    call: Call,
    upstream: Upstream,
    finish: (response: Response) => Promise<Response>,
  ): Promise<Response> {
    const pausedMs = performance.now() - (this.#pausedAt ?? Number.NEGATIVE_INFINITY);
    let isGone = false;
    const ended = new AbortController();
    const gone = () => {
      if (isGone || ended.signal.aborted) return;
      isGone = true;
      this.#isAbandoned ||= pausedMs < ownPauseMs;
      // The next caller must not take this pause for one that lasts.
      this.#paused = undefined;
      void cancelUntilEnded(this.#context, 'cancel-checkpoint', call.payload, ended.signal);
    };
    this.#running += 1;
    let stopLooking: (() => void) | undefined;
    const end = async () => {
      if (ended.signal.aborted) return;
      ended.abort();
      stopLooking?.();
      this.#running -= 1;
      if (this.#running === 0) await this.#end(upstream);
    };
    try {
      const image = new ImageDirectory(checkpointPath(call.payload), this.#context.temporaryFolder);
      if (image.isGivenUp) {
        // runc would make the directory again, and nobody would hear of the checkpoint.
        this.#isAbandoned ||= pausedMs < ownPauseMs;
        return givenUp;
      }
      if (this.#running === 1) this.#paused = await this.#stateBefore(upstream);
      stopLooking = this.#whenGivenUp(image, gone);
      let unheardEnd = Promise.resolve();
      const unheard = () => {
        this.#isAbandoned ||= pausedMs < ownPauseMs;
        if (this.#running === 0) unheardEnd = this.#end(upstream);
      };
      const finished = async (response: Response) => {
        await end();
        const answer = await finish(response);
        // The connection to the stock shim ends with the answer.
        await unheardEnd;
        return answer;
      };
      return await upstream.forwardToEnd(gone, finished, unheard);
    } finally {
      await end();
    }
  }

  async #stateBefore(upstream: Upstream): Promise<Buffer | undefined> {
    try {
      const { code, payload } = await upstream.ask('State', bytesField(1, this.#id));
      return code === statusCode.ok ? pausedState(payload) : undefined;
    } catch (error) {
      this.#context.report(error);
      return undefined;
    }
  }

  /** Returns a function that ends the watch. */
  #whenGivenUp(image: ImageDirectory, gone: () => void): () => void {
    if (!image.isTemporary) return () => undefined;
    const timer = setInterval(() => {
      if (image.isGivenUp) gone();
    }, lookMs);
    return () => clearInterval(timer);
  }

  /** After the last of the checkpoints that ran at once. */
  async #end(upstream: Upstream): Promise<void> {
    this.#paused = undefined;
    if (!this.#isAbandoned) return;
    this.#isAbandoned = false;
    try {
      const { code, payload } = await upstream.ask('State', bytesField(1, this.#id));
      if (code !== statusCode.ok || !isPaused(payload)) return;
      const first = await upstream.ask('Resume', bytesField(1, this.#id));
      const resumed = this.#resumed(await this.#orResumedLater(first, upstream));
      if (resumed.code !== statusCode.ok) throw new Error(`resume: ${resumed.message}`);
    } catch (error) {
      this.#context.report(error);
    }
  }
}
