/** What the target of a migration does on its host, for target-side.ts. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { KfdError } from '../errors.js';
import type { ListPages } from '../manifest/ancestors.js';
import { momentNow } from './clock.js';
import type { EngineSetting } from './engine.js';
import { engineOf } from './engines.js';
import { failureIn } from './failure-text.js';
import { contentsOptions } from './gpu-folders.js';
import { removeRecord, type TargetRecord, writeRecord } from './journal.js';
import { placesBelow } from './places.js';
import { removeContents } from './store.js';
import type { TargetHost } from './target-side.js';
import type { Message } from './wire/messages.js';
import { lastLines, Work } from './work.js';

/** The hidden verb of the guard. */
export const guardVerb = 'migrate-guard';
/** What the guard prints when it watches. */
export const armed = 'armed\n';

export interface HostSetting extends EngineSetting {
  readonly listPages: ListPages;
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
): TargetHost {
  const { id, contents } = record;
  const { root, run } = setting;
  const places = placesBelow(root);
  const engine = engineOf(record, setting);
  const { container } = engine;
  const work = new Work(places.work(id));
  return {
    now: () => momentNow(root),
    write: (next) => writeRecord(next, places.journal),
    removeRecord: () => removeRecord({ id, side: 'target' }, places.journal),
    arm: () => arm(id, setting),
    start: async () => {
      const log = places.log(id);
      const options = contentsOptions(contents, setting.listPages);
      const starts = engine.start({ folder: contents, contents: options, choices });
      const status = await work.run(starts, { log });
      if (status !== 0) throw failureIn(await lastLines(log), 'restore');
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
      await removeContents(id, contents, places, run);
      await rm(places.log(id), { force: true });
    },
    say,
  };
}

/** Resolves when the guard watches. It lives in a session of its own, and does not notice that ssh ends. */
async function arm(id: string, { root, self }: HostSetting): Promise<void> {
  const [node, ...before] = self;
  const log = placesBelow(root).guardLog(id);
  await mkdir(dirname(log), { recursive: true, mode: 0o700 });
  const file = await open(log, 'a', 0o600);
  try {
    const child = spawn(node, [...before, guardVerb, '--root', root, id], {
      detached: true,
      cwd: '/',
      stdio: ['ignore', 'pipe', file.fd],
    });
    const stdout = child.stdout as Readable;
    const said = await Promise.race([
      once(stdout, 'data').then(([text]) => String(text)),
      once(child, 'exit').then(([status]) => `ended with status ${status}`),
    ]);
    stdout.destroy();
    child.unref();
    if (said === armed) return;
    throw new KfdError('E_HOST', `migration: the guard does not watch: ${said.trimEnd()}`, {
      hint: `see ${log}`,
    });
  } finally {
    await file.close();
  }
}
