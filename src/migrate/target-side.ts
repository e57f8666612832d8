/** Plays the target of one migration: the machine of protocol/target.ts, with the effects done on this host. */

import { asKfdError, KfdError } from '../errors.js';
import { stage } from '../stages.js';
import type { TargetRecord } from './journal.js';
import { defaultTerms, isOverAtTarget, type Moment, targetDeadline } from './protocol/lease.js';
import {
  type TargetEffect,
  type TargetEvent,
  type TargetState,
  transition,
  whyTooLateThere,
} from './protocol/target.js';
import { Runner } from './runner.js';
import { failureOf, type Message } from './wire/messages.js';

/** What is done on the host. Each throws when it is not done for sure. */
export interface TargetHost {
  readonly now: () => Promise<Moment>;
  readonly write: (record: TargetRecord) => Promise<void>;
  /** A migration without a record has ended. */
  readonly removeRecord: () => Promise<void>;
  /** Resolves when the guard watches. */
  readonly arm: () => Promise<void>;
  /** Resolves when the container runs. */
  readonly start: () => Promise<void>;
  readonly pause: () => Promise<void>;
  readonly unpause: () => Promise<void>;
  /** The container, and what podman still does for it. */
  readonly remove: () => Promise<void>;
  readonly removeContents: () => Promise<void>;
  /** Without effect where there is no connection. */
  readonly say: (message: Message) => void;
}

type Event = Exclude<TargetEvent, { type: 'grant' | 'expired' }> | { readonly type: 'grant' };

export class TargetSide {
  readonly #host: TargetHost;
  readonly #runner: Runner<TargetState, TargetEvent, TargetEffect>;
  #record: TargetRecord;
  #leave: () => void = () => undefined;
  #broken: (error: unknown) => void = () => undefined;
  /** Resolves when this process has nothing more to do for the migration. Rejects with what an effect has thrown. */
  readonly left: Promise<void>;

  /** With the recorded phase: `restarted` comes first then. */
  constructor(record: TargetRecord, host: TargetHost) {
    this.#record = record;
    this.#host = host;
    this.left = new Promise((resolve, reject) => {
      this.#leave = resolve;
      this.#broken = reject;
    });
    // Whoever does not wait for it asks `idle`.
    this.left.catch(() => undefined);
    this.#runner = new Runner<TargetState, TargetEvent, TargetEffect>(
      { phase: record.phase },
      { transition, perform: (effect, state) => this.#perform(effect, state) },
    );
  }

  get id(): string {
    return this.#record.id;
  }

  get phase(): TargetState['phase'] {
    return this.#runner.state.phase;
  }

  get record(): TargetRecord {
    return this.#record;
  }

  get failure(): KfdError | undefined {
    return this.#runner.state.failure;
  }

  /** The reason why it comes too late, if it does. */
  cancel(error: KfdError): string | undefined {
    const why = whyTooLateThere(this.#runner.state);
    if (why === undefined) this.#happen({ type: 'fail', error });
    return why;
  }

  async post(event: Event): Promise<void> {
    const { deadline } = this.#record;
    const late = deadline === undefined || isOverAtTarget(deadline, await this.#host.now());
    this.#happen(event.type === 'grant' ? { type: 'grant', late } : event);
  }

  #happen(event: TargetEvent): void {
    this.#runner.post(event);
    this.#runner.idle().catch(this.#broken);
  }

  /** Resolves when all events are handled. Throws what an effect has thrown. */
  async idle(): Promise<void> {
    await this.#runner.idle();
  }

  async #perform(effect: TargetEffect, state: TargetState): Promise<void> {
    const host = this.#host;
    switch (effect) {
      case 'record':
        return this.#write(state);
      case 'arm':
        return host.arm();
      case 'disarm':
        // The guard ends by itself: it reads the record. What has arrived is not needed any more.
        return host.removeContents();
      case 'start':
        return this.#start();
      case 'pause':
        return host.pause();
      case 'unpause':
        return host.unpause();
      case 'remove':
        await host.remove();
        return host.removeContents();
      case 'ask':
        return host.say({ type: 'ready', id: this.id });
      case 'say-resumed':
        return host.say({ type: 'resumed', id: this.id });
      case 'say-taken':
        return host.say({ type: 'taken', id: this.id });
      case 'say-failed':
        return host.say(this.#failed(state.failure));
      case 'leave':
        this.#leave();
    }
  }

  async #write({ phase }: TargetState): Promise<void> {
    if (phase === 'ended' || phase === 'settled') {
      await this.#host.removeRecord();
      stage('migrate-target', phase);
      return;
    }
    // Before the question for the lease: its time begins here.
    const terms = { ...defaultTerms, leaseMs: this.#record.lease_ms };
    const deadline =
      phase === 'ready' ? targetDeadline(await this.#host.now(), terms) : this.#record.deadline;
    this.#record = { ...this.#record, phase, ...(deadline && { deadline }) };
    await this.#host.write(this.#record);
    stage('migrate-target', phase);
  }

  #start(): void {
    this.#host.start().then(
      () => {
        stage('migrate-target', 'started');
        this.#happen({ type: 'started' });
      },
      (error: unknown) => {
        this.#happen({ type: 'start-failed', error: asKfdError(error, 'restore') });
      },
    );
  }

  #failed(failure: KfdError | undefined): Message {
    return { type: 'failed', id: this.id, failure: failureOf(failure ?? this.#forgotten()) };
  }

  /** No record says why nothing of it is here. */
  #forgotten(): KfdError {
    return new KfdError(
      'E_TIMEOUT',
      `${this.#record.container}: is not here: its lease was over, or its record is gone`,
      {
        hint: 'where a restore takes longer, give it more time: --lease SECONDS',
      },
    );
  }
}
