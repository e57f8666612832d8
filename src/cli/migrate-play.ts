/** A migration as the source's process plays it: its lock, what others see of it, and how they stop it. */

import { asKfdError, KfdError } from '../errors.js';
import { Control } from '../migrate/control.js';
import { listRecords, type SourceRecord } from '../migrate/journal.js';
import { removeDeadContents, removeDeadSockets, removeFiles } from '../migrate/leftovers.js';
import { placesBelow } from '../migrate/places.js';
import { Meter, resultOf } from '../migrate/status.js';
import { Lock } from '../os/lock.js';
import type { CommandContext } from './context.js';

/**
 * Whether nothing is recorded. Where it is, the next process waits for podman at work, and reads what it has printed.
 * A journal that cannot be read may have a record. Never throws.
 */
async function hasEnded(id: string, root: string): Promise<boolean> {
  const records = await listRecords(placesBelow(root).journal).catch(() => undefined);
  return records?.every((one) => one.id !== id || one.side !== 'source') ?? false;
}

type Who = Pick<SourceRecord, 'id' | 'container' | 'container_id' | 'host'>;

export class Play {
  readonly id: string;
  readonly meter = new Meter();
  /** The last one that was told. */
  phase: string;
  /** Why a cancel comes too late, if it does. */
  tooLate: () => string | undefined = () => undefined;
  readonly #who: Who;
  readonly #cancel = new AbortController();
  readonly #begun = performance.now();

  /** Throws E_HOST where another process plays a migration of this container, E_IO, and what `work` throws. */
  static async during<T>(
    who: Who,
    phase: string,
    root: string,
    { signal, run }: Pick<CommandContext, 'signal' | 'run'>,
    work: (play: Play) => Promise<T>,
  ): Promise<T> {
    const places = placesBelow(root);
    const lock = await Lock.tryTake(places.lock(who.container_id));
    if (lock === undefined) {
      throw new KfdError('E_HOST', `${who.container}: another migration of it is at work`, {
        hint: 'wait for its end',
      });
    }
    const play = new Play(who, phase);
    const interrupt = () => void play.cancel('interrupted');
    let control: Control | undefined;
    try {
      await removeDeadSockets(places);
      // A journal that cannot be read is found by whoever needs it.
      await removeDeadContents(places).catch(() => undefined);
      control = await Control.open(places.control(who.id, 'source'), {
        status: () => play.#status(),
        cancel: (reason) => play.cancel(reason),
      });
      signal.addEventListener('abort', interrupt, { once: true });
      if (signal.aborted) interrupt();
      const result = await work(play);
      await control.close(resultOf(undefined));
      return result;
    } catch (error) {
      await control?.close(resultOf(asKfdError(error, who.container)));
      throw error;
    } finally {
      signal.removeEventListener('abort', interrupt);
      // What stays here hides no result: the next migration of this container removes it.
      if (await hasEnded(who.id, root))
        await removeFiles(who.container_id, places, run).catch(() => undefined);
      await lock.remove();
    }
  }

  private constructor(who: Who, phase: string) {
    this.id = who.id;
    this.#who = who;
    this.phase = phase;
  }

  /** Aborted by whoever cancels it, with a KfdError as the reason. */
  get signal(): AbortSignal {
    return this.#cancel.signal;
  }

  /** Returns the reason why it comes too late, if it does. */
  cancel(reason: string): string | undefined {
    const why = this.tooLate();
    if (why === undefined) this.#cancel.abort(new KfdError('E_CANCELLED', `migrate: ${reason}`));
    return why;
  }

  #status() {
    const { id, container, container_id, host } = this.#who;
    return {
      migration: id,
      side: 'source' as const,
      container,
      container_id,
      ...(host !== undefined && { host }),
      pid: process.pid,
      phase: this.phase,
      elapsed_us: Math.round((performance.now() - this.#begun) * 1000),
      bytes_done: this.meter.done,
      bytes_total: this.meter.total,
      bytes_per_s: this.meter.rate,
      cancelled: this.signal.aborted,
    };
  }
}
