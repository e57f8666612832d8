/** A container behind the proxy whose pauses and checkpoints the test plays. */

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { bytesField, numberField } from '../../src/protobuf.js';
import { id, service, type World, world } from './intercept-world.js';
import { until } from './shim-host.js';

/** A StateResponse. */
export const state = (status: number) => Buffer.concat([id, numberField(4, status)]);

export interface Stage extends World {
  status: number;
  /** Codes of the stock shim's answers, by method. */
  readonly codes: Record<string, number>;
  /** Whether the runtime stops a container that runs; what it was asked for. */
  pausesAgain: boolean;
  /** How long failures are being explained. */
  explaining: Promise<void>;
  readonly pausedAgain: Buffer[];
  /** Checkpoints whose caller goes, until their end; the calls of the stock shim after the Checkpoint. */
  abandoned(): Promise<readonly string[]>;
  /** A Checkpoint that its caller waits for. */
  saved(image?: string): Promise<readonly string[]>;
}

/** A container with a stock shim whose Checkpoint waits for a cancel when `waits`. */
export async function stage(t: TestContext, moreMs = 0): Promise<Stage> {
  const now = performance.now.bind(performance);
  t.after(() => Object.assign(performance, { now }));
  Object.assign(performance, { now: () => now() + moreMs });
  let waits = false;
  let cancelled = () => {};
  const one = {
    status: 2,
    codes: {} as Record<string, number>,
    pausesAgain: false,
    explaining: Promise.resolve(),
    pausedAgain: [] as Buffer[],
    async abandoned() {
      waits = true;
      const payload = Buffer.concat([id, bytesField(2, '/image')]);
      const at = made.asked.length;
      const begun = made.seen.length;
      const call = made.client.call({ service, method: 'Checkpoint', payload }, 100);
      await assert.rejects(call, { code: 'E_TIMEOUT' });
      await until('the end', () => made.asked.slice(at).some(([task]) => task === 'explain'));
      waits = false;
      return later(begun);
    },
    async saved(image = '/image') {
      const begun = made.seen.length;
      await made.call('Checkpoint', id, bytesField(2, image));
      return later(begun);
    },
  };
  const made = await world(t, {
    answering: async ({ method }) => {
      const code = one.codes[method] ?? 0;
      if (method === 'State') return { code, payload: state(one.status) };
      if (code === 0 && method === 'Pause') one.status = 4;
      if (code === 0 && method === 'Resume') one.status = 2;
      if (method !== 'Checkpoint' || !waits) return { code };
      await new Promise<void>((resolve) => {
        cancelled = resolve;
      });
      return { code: 2, message: 'criu failed' };
    },
    help: async ([task], input) => {
      if (task === 'explain') await one.explaining;
      if (task === 'cancel-checkpoint') cancelled();
      if (task === 'pause-again') {
        await delay(50); // as a process does
        one.pausedAgain.push(input);
        if (!one.pausesAgain) throw new Error('runc: container not running');
        delete one.codes['Resume'];
      }
      return Buffer.alloc(0);
    },
  });
  const later = (begun: number) => {
    const methods = made.seen.slice(begun).map(({ method }) => method);
    return methods.slice(methods.indexOf('Checkpoint') + 1);
  };
  await made.call('Create', id, bytesField(2, made.bundle));
  return Object.assign(one, made);
}
