/** Checkpoints of one container, and the pauses of callers who have gone. */

import { bytesField } from '../../src/protobuf.js';
import { type Call, type Response, statusCode } from '../../src/ttrpc/envelope.js';
import { cancelUntilEnded } from './cancelling.js';
import type { Helper } from './helper.js';
import type { Upstream } from './interception.js';
import { checkpointPath, isPaused, pausedState, runningState } from './task-fields.js';
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
  /** One for each that runs. */
  readonly #cancels = new Set<() => void>();
  /** A StateResponse from before the checkpoints that run. */
  #before: Buffer | undefined;
  /** What is answered instead. */
  #told: Buffer | undefined;
  /** The end of a checkpoint whose caller has gone, with that of its pause. */
  #over: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;
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
    return this.#told;
  }

  /**
   * Forwards Pause, after a checkpoint whose caller has gone. A client of containerd whose time is over while it pauses
   * does not resume (`client/task.go:Checkpoint@2.1`): then this pause is ended, too.
   */
  pause(upstream: Upstream): Promise<Response> {
    let isGone = false;
    const gone = () => {
      isGone = true;
    };
    const finish = async (response: Response) => {
      if (response.code !== statusCode.ok) return response;
      this.#pausedAt = performance.now();
      if (isGone) await this.#endPause(upstream);
      return response;
    };
    return upstream.forwardToEnd(gone, finish, { after: this.#over?.promise });
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
   * Cancels the sessions of those that run, because the container is to end. The stock shim holds its lock until they
   * have ended (`cmd/containerd-shim-runc-v2/process/init.go:Kill@2.1`), so a pod would outlive its grace period.
   */
  cancel(): void {
    for (const one of this.#cancels) one();
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
    let isCancelled = false;
    const cancel = () => {
      if (isCancelled || ended.signal.aborted) return;
      isCancelled = true;
      void cancelUntilEnded(this.#context, ['cancel-checkpoint'], call.payload, ended.signal);
    };
    const gone = () => {
      if (isGone || ended.signal.aborted) return;
      isGone = true;
      this.#isAbandoned ||= pausedMs < ownPauseMs;
      this.#leave();
      cancel();
    };
    this.#running += 1;
    this.#cancels.add(cancel);
    let stopLooking: (() => void) | undefined;
    const end = async () => {
      if (ended.signal.aborted) return;
      ended.abort();
      this.#cancels.delete(cancel);
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
      if (this.#running === 1) await this.#lookBefore(upstream);
      let unheardEnd: Promise<void> | undefined;
      const unheard = () => {
        if (unheardEnd !== undefined) return;
        this.#isAbandoned ||= pausedMs < ownPauseMs;
        unheardEnd = this.#running === 0 ? this.#end(upstream) : Promise.resolve();
      };
      stopLooking = this.#whenGivenUp(image, () => (ended.signal.aborted ? unheard() : gone()));
      const finished = async (response: Response) => {
        await end();
        const answer = await finish(response);
        stopLooking?.();
        // containerd gives up a checkpoint whose client has gone, and its connection stays.
        if (image.isGivenUp && !isGone) unheard();
        // The connection to the stock shim ends with the answer.
        await unheardEnd;
        return answer;
      };
      return await upstream.forwardToEnd(gone, finished, { onUnheard: unheard });
    } finally {
      stopLooking?.();
      await end();
    }
  }

  async #lookBefore(upstream: Upstream): Promise<void> {
    try {
      const { code, payload } = await upstream.ask('State', bytesField(1, this.#id));
      this.#told = code === statusCode.ok ? pausedState(payload) : undefined;
      this.#before = this.#told && payload;
    } catch (error) {
      this.#told = undefined;
      this.#context.report(error);
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

  /**
   * The caller of a checkpoint has gone. The next one must not take its pause for one that lasts, because it would
   * neither pause nor resume.
   */
  #leave(): void {
    if (this.#told !== undefined && this.#before !== undefined)
      this.#told = this.#isAbandoned ? runningState(this.#before) : this.#before;
    if (this.#over !== undefined) return;
    let resolve = (): void => undefined;
    const promise = new Promise<void>((done) => {
      resolve = done;
    });
    this.#over = { promise, resolve };
  }

  /** After the last of the checkpoints that ran at once. */
  async #end(upstream: Upstream): Promise<void> {
    const [told, over] = [this.#told, this.#over];
    const isAbandoned = this.#isAbandoned;
    this.#isAbandoned = false;
    if (isAbandoned) await this.#endPause(upstream);
    // Another checkpoint may have begun meanwhile.
    if (this.#told === told) this.#told = undefined;
    if (this.#over === over) this.#over = undefined;
    over?.resolve();
  }

  /** Ends the pause of a caller that has gone. */
  async #endPause(upstream: Upstream): Promise<void> {
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
