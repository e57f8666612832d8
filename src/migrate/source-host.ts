/** What the source of a migration does on its host, for source-side.ts. */

import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../errors.js';
import { momentNow } from './clock.js';
import { engineOf } from './engines.js';
import { failureIn } from './failure-text.js';
import { removeRecord, type SourceRecord, writeRecord } from './journal.js';
import { Leaving, type LeavingSetting } from './leaving.js';
import type { Link } from './link.js';
import { removeMemoryAhead } from './memory-ahead.js';
import { placesBelow } from './places.js';
import type { HostSetting } from './setting.js';
import type { SourceHost } from './source-side.js';
import { lastLines, Work } from './work.js';

export interface SourceSetting extends HostSetting, LeavingSetting {
  /** Cancels the session of the checkpoint as soon as there is one. Resolves after `ended` at the latest. */
  readonly cancelCheckpoint: (reason: string, ended: AbortSignal) => Promise<void>;
}

export function sourceHost(record: SourceRecord, link: Link, setting: SourceSetting): SourceHost {
  const { id, container_id: containerId } = record;
  const { root } = setting;
  const places = placesBelow(root);
  const engine = engineOf(record, setting);
  const { container } = engine;
  const work = new Work(places.work(containerId));
  const log = places.log(containerId);
  const leaving = new Leaving(record, setting, engine, work);
  const hasStopped = new AbortController();
  return {
    now: () => momentNow(root),
    wait: (ms, until) => delay(ms, undefined, { signal: until }),
    write: (next) => writeRecord(next, places.journal),
    removeRecord: async () => {
      await removeRecord({ id, side: 'source' }, places.journal);
      await removeMemoryAhead(places.keptOf(id), engine);
      await leaving.remove();
    },
    stop: async (mark) => {
      await leaving.make(mark, link).finally(() => hasStopped.abort());
      const state = await container.state();
      if (state === 'stopped') return;
      throw new KfdError('E_HOST', `${record.container}: is not stopped after its checkpoint`, {
        hint: 'find out who starts it: a restart policy, or a unit of systemd',
        details: { state },
      });
    },
    cancelStop: ({ message }) => {
      leaving.cancel();
      // Where it fails, the checkpoint comes to its own end. The container is brought back after either.
      setting.cancelCheckpoint(message, hasStopped.signal).catch(() => undefined);
    },
    send: () => leaving.send(link),
    say: (message) => link.say(message),
    drop: (error) => void link.drop(error),
    connect: (until) => link.connect(until),
    bringBack: async () => {
      await leaving.stop();
      await work.settle(() => false);
      const state = await container.state();
      // A round that was cut off may have left it frozen, although the engine says that it runs.
      if (state === 'runs' || state === 'paused') return container.unpause();
      await engine.clearWay?.();
      const status = await work.run(engine.bringBack(leaving.options), { log });
      if (status !== 0) throw failureIn(await lastLines(log), 'restore');
      if ((await container.state()) === 'runs') return;
      throw new KfdError('E_IO', `${record.container}: does not run after its restore`, {
        hint: 'see "podman logs"',
      });
    },
    forget: () => container.forget(),
  };
}
