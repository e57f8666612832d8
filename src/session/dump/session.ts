/**
 * One checkpoint. It takes KFD states and dma-bufs from the plugin and drains contents while CRIU dumps host memory. It
 * seals the image at `post-dump`. It undoes each pause that the plugin did not. machine.ts decides the next step.
 */

import { KfdError } from '../../errors.js';
import type { Host } from '../../gpu/host.js';
import { removeImageFiles } from '../../manifest/image.js';
import { native } from '../../native.js';
import { stage } from '../../stages.js';
import { parentIndexes } from '../contents/parent.js';
import type { SessionContext } from '../context.js';
import { type Cancellable, resultOf, type SessionResult, tooLate } from '../control/types.js';
import { deferred } from '../deferred.js';
import type { Message } from '../plugin/message.js';
import { PendingAnswer } from '../plugin/pending-answer.js';
import {
  type Answer,
  asSessionError,
  type Handler,
  reportedFailure,
  serveMessages,
} from '../plugin/serve-messages.js';
import { messageType } from '../plugin/wire.js';
import { DumpClock } from './clock.js';
import { DumpImage } from './image.js';
import { KernelLimits, type KernelSource } from './kernel-limits.js';
import { mayStay, transition, whyTooLate } from './machine.js';
import type { DumpedProcess } from './process.js';
import { DumpRecord } from './record.js';
import { buffersOf, findShares } from './sharing.js';
import {
  type DumpEffect,
  type DumpEvent,
  type DumpState,
  type EndAnswer,
  initialDump,
} from './state.js';
import { anySurvives } from './survivors.js';
import { thisHost } from './this-host.js';
import { unpauseSurvivors } from './unpause.js';
import { refuseUnrestorable } from './unrestorable.js';
import { wrongBuffers } from './wrong-buffers.js';

/** Numbers of the answer to dumpEnd: native/core/wire.h. */
const endAnswers: Readonly<Record<EndAnswer, number>> = { unpause: 0, stay: 1, continue: 2 };

const thisKernel: KernelSource = {
  root: '/',
  restoreTakes: (queue) => native().kfdRestoreTakes(queue),
};

export class DumpSession implements Cancellable {
  readonly #context: SessionContext;
  readonly #readHost: () => Promise<Host>;
  readonly #kernel: KernelSource;
  readonly #clock: DumpClock;
  readonly #pending = new PendingAnswer();
  readonly #reported = deferred();
  readonly #effects: Readonly<Record<DumpEffect, () => void>> = {
    'write-states': () => this.#write(this.#image?.writeStates(), 'states-written'),
    'write-manifest': () => this.#write(this.#image?.seal(this.#clock), 'manifest-written'),
    'drain-copies': () => this.#image?.drainCopies(),
    'close-buffers': () => this.#record?.closeBuffers(),
    'cancel-transfers': () => this.#context.transfers.cancel(),
    unpause: () => unpauseSurvivors(this.processes, this.#context.log),
    'remove-image': () => this.#image?.remove(),
    answer: () => this.#pending.give({}),
    refuse: () => void this.#refuse(),
    'drop-question': () => this.#pending.drop(),
    report: () => void this.#report(),
  };
  #state: DumpState = initialDump;
  #record: DumpRecord | undefined;
  #image: DumpImage | undefined;

  /** `host` and `kernel`: look at this host. */
  constructor(
    context: SessionContext,
    host: () => Promise<Host> = thisHost,
    kernel: KernelSource = thisKernel,
  ) {
    this.#context = context;
    this.#readHost = host;
    this.#kernel = kernel;
    this.#clock = new DumpClock(context.phases, () => context.tellFreeze());
  }

  /** Ready for messages of the plugin when it returns. Throws E_IO, E_GPU_IO. */
  async start(): Promise<void> {
    // A container checkpointed before in place leaves its old image in this directory.
    await removeImageFiles(this.#context.image);
    const host = await this.#readHost();
    const limits = await KernelLimits.of(host, this.#kernel);
    const record = new DumpRecord(host, this.#context.log);
    this.#record = record;
    const { request, command } = this.#context;
    const parent = await parentIndexes(request.criuPid, command);
    const image = new DumpImage(this.#context, record, parent);
    this.#image = image;
    const handlers: [number, Handler][] = [
      [messageType.dumpRefused, (m) => this.#refused(m)],
      [messageType.dumpSurveyed, (m) => this.#surveyed(m, limits)],
      [messageType.dumpPause, (m) => this.#pause(m, record)],
      [messageType.dumpState, (m) => record.addState(m) as undefined],
      [messageType.dumpBuffers, (m) => record.addBuffers(m) as undefined],
      [messageType.dumpRender, (m) => record.addRenderFile(m) as undefined],
      [messageType.dumpDmabuf, (m) => record.dmabufs.hold(m) as undefined],
      [messageType.dumpBegin, (m) => this.#begin(m, record, image, limits)],
      [messageType.dumpFile, (m) => record.addFile(m) as undefined],
      [messageType.stage, (m) => this.#stage(m)],
      [messageType.dumpEnd, (m) => this.#end(m)],
      [messageType.dumpUnpaused, () => this.#unpaused()],
      [messageType.dumpResult, (m) => this.#result(m)],
    ];
    serveMessages(this.#context, new Map(handlers), (error) => this.#on({ type: 'fail', error }));
    this.#context.phases.enter('wait_for_tree');
    stage('session-dump', 'ready');
  }

  /** Called after CRIU has ended: no process stays paused, no unfinished image stays. */
  async finish(): Promise<SessionResult> {
    // A tree that is being killed needs a moment. One that is paused must not wait for the look.
    const open = mayStay(this.#state.phase);
    this.#on({ type: 'criu-dead', survived: open && (await anySurvives(this.processes)) });
    await this.#reported.promise;
    const { outcome = 'abandoned', failure } = this.#state;
    return resultOf(outcome, failure);
  }

  get processes(): DumpedProcess[] {
    return this.#record?.processes ?? [];
  }

  /** Cancels: the container runs again after CRIU's next request. */
  cancel(error: KfdError): void {
    const why = whyTooLate(this.#state);
    if (why !== undefined) throw tooLate(why);
    this.#on({ type: 'cancel', error });
  }

  #on(event: DumpEvent): EndAnswer | undefined {
    const before = this.#state.phase;
    const { state, effects, answer } = transition(this.#state, event);
    this.#state = state;
    if (state.phase !== before) {
      this.#clock.enter(state.phase);
      stage('session-dump', state.phase);
    }
    for (const effect of effects) this.#effects[effect]();
    return answer;
  }

  #refused(message: Message): undefined {
    const error = reportedFailure(message, 'E_UNSUPPORTED_STATE');
    this.#context.log.error({ err: error }, 'the plugin refused this container');
    this.#on({ type: 'fail', error });
  }

  /** The plugin refuses the container with these reasons and its own. */
  async #surveyed({ args: [pid = -1] }: Message, limits: KernelLimits): Promise<Answer> {
    this.#clock.freeze();
    return { text: (await limits.beforePause(pid)).join('; ') };
  }

  #pause(message: Message, record: DumpRecord): undefined {
    record.addProcess(message);
    stage('session-dump', 'pause');
    this.#clock.pause();
    this.#on({ type: 'pause' });
  }

  #begin(
    { args: [count, continues] }: Message,
    record: DumpRecord,
    image: DumpImage,
    limits: KernelLimits,
  ): Answer {
    const { processes } = record;
    stage('session-dump', 'begin');
    if (processes.length !== count) {
      throw new KfdError('E_PROTOCOL', 'plugin: a process is missing');
    }
    if (this.#state.failure !== undefined) throw this.#state.failure;
    const buffers = buffersOf(processes);
    const shares = findShares(buffers);
    const { checkPrivateData, buffersBehind } = native();
    const wrong = wrongBuffers(buffers, processes, record.host, buffersBehind);
    const others = [...record.dmabufs.find(buffers), ...wrong];
    refuseUnrestorable(processes, shares, limits, checkPrivateData, others);
    const aside = continues === 1 && this.#context.config.short_freeze;
    this.#on({ type: 'begin', aside });
    if (this.#state.phase !== 'draining') throw this.#failure();
    image.start(shares, aside, {
      released: () => this.#on({ type: 'released' }),
      drained: () => this.#on({ type: 'drained' }),
      failed: (error) => this.#on({ type: 'fail', error: asSessionError(error) }),
    });
    return { text: this.#context.logPath };
  }

  #stage({ body }: Message): Promise<Answer> | Answer {
    const script = body.toString('utf8');
    this.#context.log.info({ stage: script }, 'stage');
    if (script !== 'post-dump') return {};
    const processes = this.processes.length;
    return this.#pending.ask(() => this.#on({ type: 'post-dump', processes }));
  }

  #end({ args: [result = -1, finalState = -1] }: Message): Answer {
    const answer = this.#on({ type: 'end', success: result === 0 }) ?? 'unpause';
    this.#context.log.info({ result, final_state: finalState, answer }, 'dump ends');
    return { args: [endAnswers[answer]] };
  }

  /** CRIU waits with its answer to the container engine. */
  #result({ args: [status = -1] }: Message): Promise<Answer> {
    this.#context.log.info({ status }, 'result of CRIU');
    return this.#pending.ask(() => this.#on({ type: 'result', success: status === 0 }));
  }

  async #refuse(): Promise<void> {
    await this.#image?.removed();
    this.#pending.refuse(this.#failure());
  }

  #unpaused(): Answer {
    this.#clock.unpause();
    this.#on({ type: 'unpaused' });
    return {};
  }

  #write(work: Promise<void> | undefined, done: 'states-written' | 'manifest-written'): void {
    work?.then(
      () => this.#on({ type: done }),
      (error: unknown) => this.#on({ type: 'write-failed', error: asSessionError(error) }),
    );
  }

  async #report(): Promise<void> {
    await this.#image?.removed();
    this.#record?.close();
    const { outcome, failure } = this.#state;
    this.#context.log.info(
      {
        outcome,
        err: failure,
        max_rss_bytes: process.resourceUsage().maxRSS * 1024,
        processes: this.processes.length,
        timings_us: this.#clock.timings(),
      },
      'session ended',
    );
    this.#reported.resolve();
  }

  #failure(): KfdError {
    return this.#state.failure ?? new KfdError('E_CANCELLED', 'session: CRIU gave up');
  }
}
