/** What the source of a migration does on its host, for source-side.ts. */

import type { FileHandle } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../errors.js';
import { unnamedFile } from '../os/temporary.js';
import { momentNow } from './clock.js';
import { sendContents } from './contents.js';
import { failureIn } from './failure-text.js';
import { removeRecord, type SourceRecord, writeRecord } from './journal.js';
import type { Link } from './link.js';
import { placesBelow } from './places.js';
import { PodmanContainer } from './podman.js';
import type { SourceHost } from './source-side.js';
import type { HostSetting } from './target-host.js';
import { lastLines, Work } from './work.js';

export interface SourceSetting extends HostSetting {
  /** Folder for the archive on its way. It has no name there. */
  readonly store: string;
  readonly signal: AbortSignal;
  /** Cancels the session of the checkpoint as soon as there is one. Resolves after `ended` at the latest. */
  readonly cancelCheckpoint: (reason: string, ended: AbortSignal) => Promise<void>;
  readonly onProgress: (bytes: number, total: number) => void;
}

export function sourceHost(record: SourceRecord, link: Link, setting: SourceSetting): SourceHost {
  const { id, container_id: containerId, host = '' } = record;
  const { root, run, store, signal } = setting;
  const places = placesBelow(root);
  const container = new PodmanContainer(containerId, run, root);
  const work = new Work(places.work(containerId));
  const log = places.log(containerId);
  let archive: FileHandle | undefined;
  const hasStopped = new AbortController();
  const notSent = new AbortController();
  return {
    now: () => momentNow(root),
    wait: (ms, until) => delay(ms, undefined, { signal: until }),
    write: (next) => writeRecord(next, places.journal),
    removeRecord: () => removeRecord({ id, side: 'source' }, places.journal),
    stop: async () => {
      archive = await unnamedFile(store);
      // Podman leaves the image in the bundle, too: "podman container restore" brings it back from there.
      const words = ['container', 'checkpoint', '--compress', 'none', '--export'];
      const options = { descriptor: archive.fd, log };
      const status = await work
        .run('podman', [...words, '/proc/self/fd/4', containerId], options)
        .finally(() => hasStopped.abort());
      if (status !== 0) throw failureIn(await lastLines(log), 'podman container checkpoint');
      const state = await container.state();
      if (state === 'stopped') return;
      throw new KfdError('E_HOST', `${record.container}: is not stopped after its checkpoint`, {
        hint: 'find out who starts it: a restart policy, or a unit of systemd',
        details: { state },
      });
    },
    cancelStop: ({ message }) => {
      // Where it fails, the checkpoint comes to its own end. The container is brought back after either.
      setting.cancelCheckpoint(message, hasStopped.signal).catch(() => undefined);
    },
    send: async () => {
      if (archive === undefined) throw new KfdError('E_INTERNAL', 'migration: nothing to send');
      const file = archive;
      // Whoever brings the container back does not wait for an ssh that hangs.
      archive = undefined;
      try {
        const { size } = await file.stat();
        const progress = (bytes: number) => setting.onProgress(bytes, size);
        link.say({ type: 'coming', id, bytes: size });
        const until = AbortSignal.any([signal, notSent.signal]);
        await sendContents(host, id, file.fd, until, () => momentNow(root), progress);
        progress(size);
        return size;
      } finally {
        await file.close();
      }
    },
    say: (message) => link.say(message),
    drop: (error) => void link.drop(error),
    connect: (until) => link.connect(until),
    bringBack: async () => {
      notSent.abort();
      await archive?.close();
      archive = undefined;
      await work.settle(() => false);
      const state = await container.state();
      if (state === 'runs') return;
      if (state === 'paused') return container.unpause();
      const [node, ...before] = setting.self;
      const words = ['restore', '--root', root, '--quiet', '--format', 'json', containerId];
      const status = await work.run(node, [...before, ...words], { log });
      if (status !== 0) throw failureIn(await lastLines(log), 'restore');
      if ((await container.state()) === 'runs') return;
      throw new KfdError('E_IO', `${record.container}: does not run after its restore`, {
        hint: 'see "podman logs"',
      });
    },
    forget: () => container.forget(),
  };
}
