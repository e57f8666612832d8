/**
 * One restore. It gives states and render files to the plugin in the restored tasks. It uploads contents while CRIU
 * restores memory. No task runs before every frame is verified. machine.ts decides the next step.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../../errors.js';
import type { HostOptions } from '../../gpu/host.js';
import { withRisks } from '../../gpu/sdma-risks.js';
import { fromNative } from '../../native.js';
import { stage } from '../../stages.js';
import { requestedForRestore } from '../contents/requests.js';
import { Uploads } from '../contents/upload.js';
import type { SessionContext } from '../context.js';
import { type Cancellable, resultOf, type SessionResult, tooLate } from '../control/types.js';
import { deferred } from '../deferred.js';
import type { Message } from '../plugin/message.js';
import { PendingAnswer } from '../plugin/pending-answer.js';
import {
  type Answer,
  type Handler,
  reportedFailure,
  serveMessages,
} from '../plugin/serve-messages.js';
import { messageType } from '../plugin/wire.js';
import { secondsLeft, withDeadline } from './deadline.js';
import { evictionsOver } from './evictions.js';
import { RestoreFiles } from './files.js';
import { RestoreImage } from './image.js';
import {
  initialRestore,
  type RestoreEffect,
  type RestoreEvent,
  type RestoreState,
  transition,
  whyTooLate,
} from './machine.js';
import { preflight } from './preflight.js';
import { evictedOf, resumeAll } from './resume.js';
import {
  allUploaded,
  checkMappings,
  closeBuffers,
  leaveFilter,
  type Returning,
  renderFilesOf,
} from './returning.js';
import { claimSlots } from './slots.js';
import { RestoreTree } from './tree.js';

/** Time for RESUME when the uploads took nearly all of the restore's time. */
const leastResumeSeconds = 5;
const lateMessagesMs = 500;
/** A transfer may wait for a GPU whose process was killed. */
const releaseMs = 20_000;

export class RestoreSession implements Cancellable {
  readonly #context: SessionContext;
  readonly #host: HostOptions | undefined;
  readonly #pending = new PendingAnswer();
  readonly #atGate = deferred();
  readonly #reported = deferred();
  readonly #effects: Readonly<Record<RestoreEffect, () => void>> = {
    'await-uploads': () => void this.#awaitUploads(),
    resume: () => void this.#resume(),
    'close-buffers': () => closeBuffers(this.processes),
    'cancel-transfers': () => this.#context.transfers.cancel(),
    'end-tree': () => this.#endTree(),
    release: () => void this.#release(),
    answer: () => this.#pending.give({}),
    refuse: () => this.#pending.refuse(this.#failure()),
    report: () => void this.#report(),
  };
  #state: RestoreState = initialRestore;
  #image: RestoreImage | undefined;
  #uploads: Uploads | undefined;
  #slots: { close(): void } | undefined;
  #gateBegan: number | undefined;
  #tree: RestoreTree | undefined;
  #treeEnded: Promise<void> | undefined;

  /** `host`: another host than this one. */
  constructor(context: SessionContext, host?: HostOptions) {
    this.#context = context;
    this.#host = host;
  }

  /** Refuses an impossible restore before any task exists. Throws KfdError with all reasons. */
  async start(): Promise<void> {
    const { config, log, phases, image: directory } = this.#context;
    const handlers = new Map<number, Handler>([
      [messageType.restoreFailed, (m) => this.#failed(m)],
      [messageType.stage, (m) => this.#stage(m)],
      [messageType.restoreEnd, (m) => this.#ended(m)],
    ]);
    const tree = new RestoreTree(this.#context.request.criuPid, directory);
    this.#tree = tree;
    const ofTask = (handler: Handler) => (message: Message) => {
      tree.meet(message.pid);
      return handler(message);
    };
    const find = (roots: readonly string[]) =>
      requestedForRestore(this.#context.request.criuPid, roots);
    const plan = await preflight(directory, config, this.#host, find);
    if (plan !== undefined) {
      const { ignored, risks } = plan;
      if (ignored.length > 0) log.warn({ ignored }, 'restores in spite of differences');
      for (const { message: reason, gpu } of risks)
        log.warn({ gpu, reason }, 'SDMA queues of others');
      this.#slots = await claimSlots(plan);
      const image = new RestoreImage(plan);
      const uploads = new Uploads(this.#context, plan);
      const files = new RestoreFiles(image, phases, config.gate_timeout_s);
      this.#image = image;
      this.#uploads = uploads;
      for (const [type, handler] of files.handlers()) handlers.set(type, ofTask(handler));
      const restored = (m: Message) => this.#restored(m, image, uploads, tree);
      handlers.set(messageType.restored, restored);
      handlers.set(messageType.vmasMapped, (m) => vmasMapped(m, image));
    }
    serveMessages(this.#context, handlers, (error) => this.#on({ type: 'fail', error }));
    phases.enter('wait_for_tasks');
    stage('session-restore', 'ready');
  }

  /** Called after CRIU has ended: releases everything of the GPU. */
  async finish(): Promise<SessionResult> {
    // A session that was stopped hears of CRIU's end before it reads what CRIU has sent.
    if (this.#state.phase === 'resumed' && !this.#state.running) await delay(lateMessagesMs);
    this.#on({ type: 'criu-dead' });
    await Promise.race([this.#reported.promise, this.#givenUp()]);
    const { outcome = 'failed', failure } = this.#state;
    return resultOf(outcome, failure);
  }

  /** The end of this process releases whatever does not end by itself. */
  async #givenUp(): Promise<void> {
    await delay(releaseMs, undefined, { ref: false });
    const { held } = this.#state;
    this.#context.log.error({ seconds: releaseMs / 1000, held }, 'does not end by itself');
  }

  get processes(): Returning[] {
    return [...(this.#image?.processes.values() ?? [])];
  }

  /** Cancels: CRIU kills the tree after its next request. */
  cancel(error: KfdError): void {
    const why = whyTooLate(this.#state);
    if (why !== undefined) throw tooLate(why);
    this.#on({ type: 'cancel', error });
  }

  #on(event: RestoreEvent): void {
    const before = this.#state.phase;
    const { state, effects } = transition(this.#state, event);
    this.#state = state;
    if (state.phase !== before) stage('session-restore', state.phase);
    for (const effect of effects) this.#effects[effect]();
  }

  /** RESTORE zeroes the event page, so contents are uploaded only after it has returned. */
  async #restored(
    message: Message,
    image: RestoreImage,
    uploads: Uploads,
    tree: RestoreTree,
  ): Promise<Answer> {
    stage('session-restore', 'restored');
    const process = image.process(message);
    const { config, log, logPath, phases } = this.#context;
    await leaveFilter(process);
    if (message.args[1] === 0) {
      // There is no KFD state. Render files bring back the rest.
      if (renderFilesOf(image.manifest, process).length === 0) process.upload = Promise.resolve();
      return { text: logPath };
    }
    const { ordinal } = process.prepared;
    process.pid = message.pid;
    process.pidfd = tree.meet(message.pid);
    const upload = () => {
      log.info({ process: ordinal, pid: process.pid }, 'uploading');
      return uploads.start(ordinal, process.dmabufs);
    };
    process.upload = config.parallel ? upload() : this.#atGate.promise.then(upload);
    process.upload.catch((error: unknown) => {
      this.#on({ type: 'fail', error: fromNative(error, 'upload') });
    });
    phases.enter('overlap');
    return { text: logPath };
  }

  #failed(message: Message): undefined {
    const error = withRisks(reportedFailure(message, 'E_GPU_IO'), this.#image?.plan.risks ?? []);
    this.#context.log.error({ err: error }, 'the plugin failed in a restored task');
    this.#on({ type: 'fail', error });
  }

  #stage({ body }: Message): Promise<Answer> | Answer {
    const script = body.toString('utf8');
    this.#context.log.info({ stage: script }, 'stage');
    if (script === 'post-resume') this.#on({ type: 'running' });
    if (script !== 'post-restore') return {};
    this.#gateBegan = performance.now();
    this.#context.phases.enter('gate');
    return this.#pending.ask(() => this.#on({ type: 'post-restore' }));
  }

  /** At CRIU's end, in case that the action script at `post-resume` was killed. */
  #ended({ args: [result = -1] }: Message): Answer {
    this.#context.log.info({ result }, 'restore ends');
    if (result === 0) this.#on({ type: 'running' });
    return {};
  }

  #endTree(): void {
    this.#treeEnded = this.#tree?.end().then(
      (pids) => {
        if (pids.length > 0) this.#context.log.warn({ pids }, 'ended tasks CRIU left behind');
      },
      (err: unknown) => this.#context.log.error({ err }, 'tasks may be left behind'),
    );
  }

  async #awaitUploads(): Promise<void> {
    this.#atGate.resolve();
    const seconds = this.#context.config.gate_timeout_s;
    try {
      await withDeadline(seconds, 'upload: not finished', allUploaded(this.processes));
      this.#on({ type: 'uploaded' });
    } catch (caught) {
      const error = fromNative(caught, 'restore');
      this.#on({ type: error.code === 'E_TIMEOUT' ? 'deadline' : 'fail', error });
    }
  }

  async #resume(): Promise<void> {
    this.#context.phases.enter('resume');
    try {
      checkMappings(this.processes);
      const evicted = await evictedOf(this.#image, this.#context.log);
      // CRIU may have ended meanwhile. RESUME of any other process can crash the kernel.
      if (this.#state.phase !== 'resuming') return;
      resumeAll(this.processes, evicted);
      stage('session-restore', 'resume-called');
      const seconds = secondsLeft(this.#context.config.gate_timeout_s, leastResumeSeconds);
      await evictionsOver(evicted, seconds);
    } catch (error) {
      this.#on({ type: 'fail', error: fromNative(error, 'restore') });
      return;
    }
    this.#context.phases.enter('finish');
    this.#on({ type: 'resumed' });
  }

  async #release(): Promise<void> {
    this.#slots?.close(); // uploads may take long to end, and another restore sees what has queues
    await this.#uploads?.cancel();
    for (const folder of this.#image?.plan.folders ?? []) await folder.close();
    for (const process of this.processes) {
      // The rest goes with the container's cgroup.
      await leaveFilter(process).catch((err: unknown) => {
        this.#context.log.warn({ err, process: process.prepared.ordinal }, 'cannot leave a cgroup');
      });
    }
    closeBuffers(this.processes);
    for (const { render } of this.processes) {
      for (const file of render.values()) file.close();
    }
    this.#on({ type: 'released' });
  }

  async #report(): Promise<void> {
    await this.#treeEnded;
    this.#tree?.close();
    const { outcome, failure } = this.#state;
    const timings = this.#context.phases.timings();
    this.#context.log.info(
      {
        outcome,
        err: failure,
        max_rss_bytes: process.resourceUsage().maxRSS * 1024,
        processes: this.processes.length,
        content_bytes: this.#uploads?.bytes ?? 0,
        timings_us: { ...timings, ...this.#uploads?.timings(this.#gateBegan) },
      },
      'session ended',
    );
    this.#reported.resolve();
  }

  #failure(): KfdError {
    return this.#state.failure ?? new KfdError('E_INTERNAL', 'session: refused without a reason');
  }
}

function vmasMapped(message: Message, image: RestoreImage): Answer {
  image.process(message).vmasMapped = message.args[1] ?? 0;
  return {};
}
