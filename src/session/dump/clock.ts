/** The times of a checkpoint: its phases, and how long the tree stood still. */

import type { Phases } from '../phases.js';
import type { DumpPhase } from './machine.js';

/** What the phases of the machine are called in timings. Those that are not here go on with the one before. */
const names: Partial<Record<DumpPhase, string>> = {
  draining: 'overlap',
  gate: 'gate',
  states: 'gate',
  finishing: 'after_freeze',
  manifest: 'seal',
  sealed: 'finish',
  kept: 'finish',
};

export class DumpClock {
  readonly #phases: Phases;
  #pausedAt: number | undefined;
  #freezeUs: number | undefined;
  #gateAt: number | undefined;

  constructor(phases: Phases) {
    this.#phases = phases;
  }

  enter(phase: DumpPhase): void {
    const name = names[phase];
    if (name === 'gate') this.#gateAt ??= performance.now();
    if (name !== undefined && name !== this.#phases.current.name) this.#phases.enter(name);
  }

  /** When post-dump came, by performance.now(); now, before it has. */
  get gateAt(): number {
    return this.#gateAt ?? performance.now();
  }

  /** A process is going to be paused: the first one counts. */
  pause(): void {
    this.#pausedAt ??= performance.now();
    this.#phases.enter('read_state');
  }

  /** All go on. */
  unpause(): void {
    if (this.#pausedAt === undefined) return;
    this.#freezeUs = Math.round((performance.now() - this.#pausedAt) * 1000);
  }

  /** Microseconds: of each phase, and `freeze` from the first pause to the end of all. */
  timings(): Record<string, number> {
    const freeze = this.#freezeUs;
    return { ...this.#phases.timings(), ...(freeze !== undefined && { freeze }) };
  }
}
