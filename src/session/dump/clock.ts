/** The times of a checkpoint: its phases, and how long the tree was stopped. */

import type { Phases } from '../phases.js';
import type { DumpPhase } from './state.js';

/** Names of the machine's phases in timings. A phase without a name counts as part of the phase before it. */
const names: Partial<Record<DumpPhase, string>> = {
  draining: 'overlap',
  gate: 'gate',
  states: 'gate',
  finishing: 'after_freeze',
  manifest: 'seal',
  sealed: 'finish',
  kept: 'finish',
  done: 'finish',
};

export class DumpClock {
  readonly #phases: Phases;
  readonly #onFreeze: () => void;
  #isFrozen = false;
  #pausedAt: number | undefined;
  #freezeUs: number | undefined;
  #gateAt: number | undefined;

  /** `onFreeze`: the tree stands still. */
  constructor(phases: Phases, onFreeze: () => void = () => undefined) {
    this.#phases = phases;
    this.#onFreeze = onFreeze;
  }

  enter(phase: DumpPhase): void {
    const name = names[phase];
    if (name === 'gate') this.#gateAt ??= performance.now();
    if (name !== undefined && name !== this.#phases.current.name) this.#phases.enter(name);
  }

  /** The time of post-dump by performance.now(); before post-dump, the current time. */
  get gateAt(): number {
    return this.#gateAt ?? performance.now();
  }

  /** CRIU has stopped the tree: the first call counts. */
  freeze(): void {
    if (!this.#isFrozen) this.#onFreeze();
    this.#isFrozen = true;
  }

  /** A process will be paused: the first call counts. */
  pause(): void {
    this.freeze();
    this.#pausedAt ??= performance.now();
    this.#phases.enter('read_state');
  }

  /** All processes run again. */
  unpause(): void {
    if (this.#pausedAt === undefined) return;
    this.#freezeUs = Math.round((performance.now() - this.#pausedAt) * 1000);
  }

  /** Microseconds of each phase, and `freeze`: from the first pause to the last resume. */
  timings(): Record<string, number> {
    const freeze = this.#freezeUs;
    return { ...this.#phases.timings(), ...(freeze !== undefined && { freeze }) };
  }
}
