/** Plays the source of one migration: the machine of protocol/source.ts, with the effects done on this host. */

import { asKfdError, KfdError } from '../errors.js';
import { stage } from '../stages.js';
import { Patience } from './clock.js';
import { silent } from './connection.js';
import type { SourceRecord } from './journal.js';
import type { Mark } from './leaving.js';
import {
  answerMs,
  defaultTerms,
  type Moment,
  sourceDeadline,
  waitAtSource,
} from './protocol/lease.js';
import {
  type SourceEffect,
  type SourceEvent,
  type SourceState,
  transition,
  whyTooLate,
} from './protocol/source.js';
import { Runner } from './runner.js';
import { errorOf, failureOf, type Message } from './wire/messages.js';

/** What is done on the host, and on the way to the other. */
export interface SourceHost {
  readonly now: () => Promise<Moment>;
  /** Resolves after some time. Rejects after `signal`. */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly write: (record: SourceRecord) => Promise<void>;
  readonly removeRecord: () => Promise<void>;
  /** Resolves when the checkpoint is complete and the container stopped. `mark` gets moments of it. */
  readonly stop: (mark: Mark) => Promise<void>;
  /** Makes `stop` end early, if it still can. */
  readonly cancelStop: (reason: KfdError) => void;
  /** Resolves with the bytes that the target has got. */
  readonly send: () => Promise<number>;
  /** Without effect where there is no connection. */
  readonly say: (message: Message) => void;
  /** Gives up a connection that is silent. */
  readonly drop: (error: KfdError) => void;
  /** Resolves with a new connection. Tries until `signal`. */
  readonly connect: (signal: AbortSignal) => Promise<void>;
  /** Resolves when the container runs here. */
  readonly bringBack: () => Promise<void>;
  readonly forget: () => Promise<void>;
}

/** Moments of a migration, milliseconds of performance.now(). */
export type Moments = ReadonlyMap<
  'stop' | 'frozen' | 'stopped' | 'sent' | 'ready' | 'resumed',
  number
>;
type MomentName = Parameters<Moments['get']>[0];

/** How often the end of the lease is looked for: suspended time counts, so no timer can be set for it. */
const stepMs = 250;

export class SourceSide {
  readonly #host: SourceHost;
  readonly #runner: Runner<SourceState, SourceEvent, SourceEffect>;
  readonly #over = new AbortController();
  readonly #moments = new Map<MomentName, number>();
  readonly #onPhase: (phase: SourceState['phase']) => void;
  #record: SourceRecord;
  #isConnecting = false;
  /** How often an answer was expected: only the last question is waited for. */
  #asked = 0;
  #reported: (state: SourceState) => void = () => undefined;
  #broken: (error: unknown) => void = () => undefined;
  /** The end. Rejects with what an effect has thrown: another process goes on with what is recorded. */
  readonly ended: Promise<SourceState>;

  /** With the recorded phase: `restarted` comes first then. */
  constructor(
    record: SourceRecord,
    host: SourceHost,
    onPhase: (phase: SourceState['phase']) => void = () => undefined,
  ) {
    this.#record = record;
    this.#host = host;
    this.#onPhase = onPhase;
    this.ended = new Promise((resolve, reject) => {
      this.#reported = resolve;
      this.#broken = reject;
    });
    this.#runner = new Runner<SourceState, SourceEvent, SourceEffect>(
      { phase: record.phase },
      { transition, perform: (effect, state) => this.#perform(effect, state) },
    );
  }

  get moments(): Moments {
    return this.#moments;
  }

  post(event: SourceEvent): void {
    this.#runner.post(event);
    this.#runner.idle().catch((error: unknown) => this.#stop(() => this.#broken(error)));
  }

  /** What the target says. Throws E_PROTOCOL for what is no word of this migration. */
  hear(message: Message): void {
    const { id, host = 'the target' } = this.#record;
    if (message.type === 'failed' && message.id === undefined) {
      // No promise: its process has a failure of its own, and ends.
      this.post({ type: 'lost', error: errorOf(message.failure, host) });
    } else if (!('id' in message) || message.id !== id) {
      throw new KfdError('E_PROTOCOL', `${host}: says "${message.type}" of another migration`);
    } else if (message.type === 'failed') {
      this.post({ type: 'failed', error: errorOf(message.failure, host) });
    } else if (message.type === 'ready' || message.type === 'resumed' || message.type === 'taken') {
      if (message.type !== 'taken') this.#mark(message.type);
      this.post({ type: message.type });
    } else {
      throw new KfdError('E_PROTOCOL', `${host}: "${message.type}" is no word of a target`);
    }
  }

  /** The reason why a cancel comes too late, if it does. */
  get tooLate(): string | undefined {
    return whyTooLate(this.#runner.state);
  }

  /** Another process, with a recorded phase. */
  async restart(): Promise<void> {
    if (this.#record.phase === 'granted') await this.#watchLease(await this.#host.now());
    this.post({ type: 'restarted' });
  }

  async #perform(effect: SourceEffect, state: SourceState): Promise<void> {
    const { id } = this.#record;
    const host = this.#host;
    switch (effect) {
      case 'record':
        return this.#write(state);
      case 'stop':
        return this.#stopContainer();
      case 'cancel-stop':
        return host.cancelStop(state.failure ?? givenUp);
      case 'send':
        return this.#send();
      case 'grant':
      case 'done':
      case 'query':
        return host.say({ type: effect, id });
      case 'yours':
        host.say({ type: effect, id });
        return this.#expectAnswer('given', (error) => host.drop(error));
      case 'revoke':
        return host.say({ type: effect, id, failure: failureOf(state.failure ?? givenUp) });
      case 'connect':
        return this.#connect();
      case 'bring-back':
        return this.#bringBack();
      case 'forget':
        return host.forget();
      case 'report':
        return this.#report(state);
    }
  }

  async #write({ phase }: SourceState): Promise<void> {
    const now = await this.#host.now();
    const terms = { ...defaultTerms, leaseMs: this.#record.lease_ms };
    const deadline = phase === 'granted' ? sourceDeadline(now, terms) : this.#record.deadline;
    this.#record = { ...this.#record, phase, ...(deadline && { deadline }) };
    await this.#host.write(this.#record);
    stage('migrate-source', phase);
    this.#onPhase(phase);
    if (phase === 'granted') await this.#watchLease(now);
  }

  #stopContainer(): void {
    this.#host
      .stop((moment, at) => this.#mark(moment, at))
      .then(
        () => {
          this.#mark('stopped');
          stage('migrate-source', 'stopped');
          this.post({ type: 'stopped' });
        },
        (error: unknown) => {
          this.post({ type: 'stop-failed', error: asKfdError(error, this.#record.container) });
        },
      );
  }

  #send(): void {
    this.#onPhase('sending');
    this.#host.send().then(
      (bytes) => {
        this.#mark('sent');
        stage('migrate-source', 'sent');
        this.#host.say({ type: 'rest', id: this.#record.id, bytes });
        this.#expectAnswer('sending', (error) => this.post({ type: 'silent', error }));
      },
      (error: unknown) => {
        this.post({ type: 'fail', error: asKfdError(error, this.#record.container) });
      },
    );
  }

  #connect(): void {
    if (this.#isConnecting) return;
    this.#isConnecting = true;
    this.#host
      .connect(this.#over.signal)
      .then(
        () => this.post({ type: 'connected' }),
        () => undefined,
      )
      .finally(() => {
        this.#isConnecting = false;
      });
  }

  #bringBack(): void {
    this.#host.bringBack().then(
      () => this.post({ type: 'back' }),
      (error: unknown) => {
        this.post({ type: 'back-failed', error: asKfdError(error, this.#record.container) });
      },
    );
  }

  async #report(state: SourceState): Promise<void> {
    if (state.phase !== 'stranded') await this.#host.removeRecord();
    this.#stop(() => this.#reported(state));
  }

  /** Where the target says nothing for too long, and this side is still in that phase. */
  #expectAnswer(phase: SourceState['phase'], then: (error: KfdError) => void): void {
    const { host = 'the target' } = this.#record;
    const patience = new Patience(answerMs, this.#host.now);
    this.#asked += 1;
    const own = this.#asked;
    const isWaiting = () =>
      this.#asked === own && this.#runner.state.phase === phase && !this.#over.signal.aborted;
    const wait = async () => {
      while (isWaiting()) {
        if (await patience.isOver()) return then(silent(host));
        await this.#host.wait(stepMs, this.#over.signal);
      }
    };
    wait().catch((error: unknown) => {
      if (isWaiting()) this.#stop(() => this.#broken(error));
    });
  }

  #stop(tell: () => void): void {
    this.#over.abort();
    tell();
  }

  async #watchLease(begun: Moment): Promise<void> {
    const { deadline, lease_ms: leaseMs, host = 'the target' } = this.#record;
    const terms = { ...defaultTerms, leaseMs };
    const watch = async () => {
      for (;;) {
        const now = await this.#host.now();
        if (waitAtSource(deadline ?? begun, now, begun, terms) === 0) break;
        await this.#host.wait(stepMs, this.#over.signal);
      }
      const error = new KfdError('E_TIMEOUT', `${host}: has not said in time that it runs`, {
        hint: 'look at the container there; see "journalctl" and the connection',
      });
      this.post({ type: 'expired', error });
    };
    watch().catch((error: unknown) => {
      if (!this.#over.signal.aborted) this.#stop(() => this.#broken(error));
    });
  }

  #mark(name: MomentName, at = performance.now()): void {
    if (!this.#moments.has(name)) this.#moments.set(name, at);
  }
}

const givenUp = new KfdError('E_CANCELLED', 'migration: the source has given it up');
