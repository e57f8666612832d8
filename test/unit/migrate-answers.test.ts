/** How long the source of a migration waits for an answer of its target, by a clock of the test. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { answerMs } from '../../src/migrate/protocol/lease.js';
import { type SourceHost, SourceSide } from '../../src/migrate/source-side.js';
import { firstRecords, id, lost } from './migrate-processes.js';

/** A host whose target never answers, and what was done there. */
class SilentTarget {
  ms = 0;
  looks = 0;
  readonly said: string[] = [];
  readonly dropped: string[] = [];
  readonly #nothing = async () => undefined;
  readonly host: SourceHost = {
    now: async () => ({ bootId: 'one', ms: this.ms }),
    wait: async (_, signal) => {
      this.looks += 1;
      await turn();
      signal.throwIfAborted();
    },
    write: this.#nothing,
    removeRecord: this.#nothing,
    stop: this.#nothing,
    cancelStop: () => undefined,
    send: async () => 7,
    say: ({ type }) => void this.said.push(type),
    drop: ({ message }) => void this.dropped.push(message),
    connect: this.#nothing,
    bringBack: this.#nothing,
    forget: this.#nothing,
  };

  async until(isSo: () => boolean): Promise<void> {
    for (let left = 1000; !isSo(); left -= 1) {
      assert.ok(left > 0);
      await turn();
    }
  }

  /** Whoever waits has looked at the clock. */
  async look(): Promise<void> {
    const before = this.looks;
    await this.until(() => this.looks > before + 10);
  }
}

test('a new connection has the whole time for its answer, whatever the one before had left', async () => {
  const target = new SilentTarget();
  const side = new SourceSide({ ...firstRecords.source, phase: 'given' }, target.host);
  await side.restart();
  await target.until(() => target.said.length === 1);
  await target.look();
  target.ms = answerMs - 1000;
  side.post({ type: 'lost', error: lost });
  await target.until(() => target.said.length === 2);
  await target.look();
  target.ms = answerMs + 1000;
  await target.look();
  assert.deepEqual([target.said, target.dropped], [['yours', 'yours'], []]);
  target.ms = 2 * answerMs;
  await target.until(() => target.dropped.length > 0);
  assert.deepEqual(target.dropped, ['b: does not answer']);
  side.hear({ type: 'taken', id });
  assert.equal((await side.ended).phase, 'done');
});
