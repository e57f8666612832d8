/** What the target of a migration does on its host, for target-side.ts. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { KfdError } from '../errors.js';
import type { ListPages } from '../manifest/ancestors.js';
import type { Run } from '../os/exec.js';
import { momentNow } from './clock.js';
import { failureIn } from './failure-text.js';
import { contentsOptions } from './gpu-folders.js';
import { removeRecord, type TargetRecord, writeRecord } from './journal.js';
import { previousFlags } from './memory-ahead.js';
import { archiveName, placesBelow } from './places.js';
import { PodmanContainer } from './podman.js';
import { removeContents } from './store.js';
import type { TargetHost } from './target-side.js';
import type { Message } from './wire/messages.js';
import { lastLines, Work } from './work.js';

/** The hidden verb of the guard. */
export const guardVerb = 'migrate-guard';
/** What the guard prints when it watches. */
export const armed = 'armed\n';

export interface HostSetting {
  readonly root: string;
  readonly run: Run;
  /** This program: Node.js and its arguments up to the verb. */
  readonly self: readonly [string, ...string[]];
  readonly listPages: ListPages;
}

/** `choices`: options of `kfd-checkpoint restore`. */
export function targetHost(
  record: Pick<TargetRecord, 'id' | 'container_id' | 'contents'>,
  setting: HostSetting,
  say: (message: Message) => void = () => undefined,
  choices: readonly string[] = [],
): TargetHost {
  const { id, container_id: containerId, contents } = record;
  const { root, run } = setting;
  const places = placesBelow(root);
  const container = new PodmanContainer(containerId, run, root);
  const work = new Work(places.work(id));
  return {
    now: () => momentNow(root),
    write: (next) => writeRecord(next, places.journal),
    removeRecord: () => removeRecord({ id, side: 'target' }, places.journal),
    arm: () => arm(id, setting),
    start: async () => {
      const [node, ...before] = setting.self;
      const words = ['restore', '--root', root, '--quiet', '--format', 'json', ...choices];
      const log = places.log(id);
      const all = [
        ...before,
        ...words,
        ...contentsOptions(contents, setting.listPages),
        join(contents, archiveName),
        ...previousFlags(contents),
      ];
      const status = await work.run(node, all, { log });
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
