/** What the target of a migration does on its host, for target-side.ts. */

import { rm } from 'node:fs/promises';
import { KfdError } from '../errors.js';
import { momentNow } from './clock.js';
import { engineOf } from './engines.js';
import { removeRecord, type TargetRecord, writeRecord } from './journal.js';
import { placesBelow } from './places.js';
import type { HostSetting } from './setting.js';
import { Standby } from './standby.js';
import { removeContents } from './store.js';
import type { TargetHost } from './target-side.js';
import type { Message } from './wire/messages.js';
import { Work } from './work.js';

/** What is done before the machine asks for it. */
export interface ReadyHost extends TargetHost {
  /** Contents come: starts what will be needed. */
  readonly prepare: () => void;
  /** Resolves when this host can restore what has arrived. Throws the reason why it cannot. */
  readonly look: () => Promise<void>;
  /** This process ends: what waits for it goes. */
  readonly release: () => Promise<void>;
}

/** `choices`: options of `kfd-checkpoint restore`. */
export function targetHost(
  record: Pick<
    TargetRecord,
    'id' | 'container' | 'container_id' | 'engine' | 'namespace' | 'contents'
  >,
  setting: HostSetting,
  say: (message: Message) => void = () => undefined,
  choices: readonly string[] = [],
): ReadyHost {
  const { id, contents } = record;
  const { root, run } = setting;
  const places = placesBelow(root);
  const engine = engineOf(record, setting);
  const { container } = engine;
  const work = new Work(places.work(id));
  const standby = new Standby({ id, contents }, setting, engine, work, choices);
  return {
    prepare: () => standby.begin(),
    look: () => standby.look(),
    release: () => standby.release(),
    now: () => momentNow(root),
    write: (next) => writeRecord(next, places.journal),
    removeRecord: () => removeRecord({ id, side: 'target' }, places.journal),
    arm: () => standby.arm(),
    start: async () => {
      await standby.start();
      if ((await container.state()) === 'runs') return;
      throw new KfdError('E_IO', 'restore: the container does not run', {
        hint: 'it may have ended by itself: look at its log on the target',
      });
    },
    pause: () => container.pause(),
    unpause: () => container.unpause(),
    remove: async () => {
      await work.settle(() => true);
      await container.remove();
    },
    removeContents: async () => {
      await standby.end();
      await removeContents(id, contents, places, run);
      await rm(places.log(id), { force: true });
    },
    say,
  };
}
