/** Parts of migrate-two-hosts.ts. */

import assert from 'node:assert/strict';
import { KfdError } from '../../src/errors.js';
import type { SourceRecord, TargetRecord } from '../../src/migrate/journal.js';
import type { TargetSide } from '../../src/migrate/target-side.js';
import { errorOf, type Message } from '../../src/migrate/wire/messages.js';

export const id = '5c'.repeat(16);
export const lost = new KfdError('E_IO', 'the connection has gone');

const common = {
  schema_version: 1,
  id,
  container: 'job',
  container_id: 'c0'.repeat(32),
  lease_ms: 2000,
} as const;

/** As both sides begin. */
export const firstRecords: { readonly source: SourceRecord; readonly target: TargetRecord } = {
  source: { ...common, side: 'source', phase: 'asking', host: 'b' },
  target: { ...common, side: 'target', phase: 'receiving', contents: '/x' },
};

/** What a process that was killed waits for. */
export const never = () => new Promise<never>(() => undefined);

/** Where a process is killed: the nth thing that a side does, before or after it is done. */
export interface Kill {
  readonly side: 'source' | 'target';
  readonly at: number;
  readonly moment: 'before' | 'after';
}

/** As far as it matters here. */
export class Process {
  connected = true;
  #alive = true;
  #die: () => void = () => undefined;
  /** Resolves when it is killed, or has ended. */
  readonly dead = new Promise<undefined>((resolve) => {
    this.#die = () => resolve(undefined);
  });

  get alive(): boolean {
    return this.#alive;
  }

  set alive(value: boolean) {
    this.#alive = value;
    if (!value) this.#die();
  }
}

/** Posts what the source says. */
export async function wordFor(side: TargetSide, message: Message): Promise<void> {
  if (message.type === 'rest') return side.post({ type: 'received' });
  const { type } = message;
  if (type === 'grant' || type === 'yours' || type === 'query' || type === 'done')
    return side.post({ type });
  assert.equal(message.type, 'revoke');
  if (message.type === 'revoke')
    return side.post({ type: 'revoke', error: errorOf(message.failure, 'source') });
}
