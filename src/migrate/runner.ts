/** Runs one of the machines: events in their order, the effects of each one after the other. */

export interface Machine<State, Event, Effect> {
  /** Pure: src/migrate/protocol. */
  readonly transition: (
    state: State,
    event: Event,
  ) => { readonly state: State; readonly effects: readonly Effect[] };
  /** Does one effect. Work that takes long is only begun here: its end is an event. */
  readonly perform: (effect: Effect, state: State) => Promise<void> | void;
}

/**
 * An effect that throws ends the run, as SIGKILL would have there: nothing after it happens, and the next process goes
 * on with what is recorded. The protocol is safe against that everywhere.
 */
export class Runner<State, Event, Effect> {
  readonly #machine: Machine<State, Event, Effect>;
  readonly #waiting: Event[] = [];
  #state: State;
  #working: Promise<void> | undefined;
  #ended = false;

  constructor(state: State, machine: Machine<State, Event, Effect>) {
    this.#state = state;
    this.#machine = machine;
  }

  get state(): State {
    return this.#state;
  }

  /** Handled after all events before it. Without effect after the end. */
  post(event: Event): void {
    if (this.#ended) return;
    this.#waiting.push(event);
    this.#working ??= this.#work();
    // Whoever waits for `idle` gets the failure.
    this.#working.catch(() => undefined);
  }

  /** Resolves when no event waits. Throws what an effect has thrown, from then on always. */
  async idle(): Promise<void> {
    await this.#working;
  }

  /** Nothing more is handled, not even what waits. */
  end(): void {
    this.#ended = true;
    this.#waiting.length = 0;
  }

  async #work(): Promise<void> {
    // The one who posts goes on first: an event is never handled within another one's effect.
    await Promise.resolve();
    try {
      for (let event = this.#waiting.shift(); event !== undefined; event = this.#waiting.shift())
        await this.#handle(event);
      this.#working = undefined;
    } catch (error) {
      this.end();
      throw error;
    }
  }

  async #handle(event: Event): Promise<void> {
    const { state, effects } = this.#machine.transition(this.#state, event);
    this.#state = state;
    for (const effect of effects) {
      if (this.#ended) return;
      await this.#machine.perform(effect, state);
    }
  }
}
