/** What the source of a migration does on its host, with a stand-in for podman. */

import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import { chmod, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { nativeServices } from '../../src/cli/native-services.js';
import { KfdError } from '../../src/errors.js';
import type { Link } from '../../src/migrate/link.js';
import { placesBelow } from '../../src/migrate/places.js';
import { type SourceSetting, sourceHost } from '../../src/migrate/source-host.js';
import { fakeRun } from './cli-context.js';
import { standInSsh } from './migrate-hosts.js';
import { firstRecords } from './migrate-processes.js';
import { until } from './migrate-two-places.js';
import { temporaryFolder } from './paths.js';

/** Puts a podman into PATH that writes an archive. */
async function podmanIn(t: TestContext): Promise<void> {
  const bin = await temporaryFolder(t);
  await writeFile(
    join(bin, 'podman'),
    '#!/bin/sh\n[ ! -e /proc/self/fd/4 ] || echo archive >/proc/self/fd/4\n',
  );
  await chmod(join(bin, 'podman'), 0o755);
  const before = process.env['PATH'];
  process.env['PATH'] = `${bin}:${before}`;
  t.after(() => {
    process.env['PATH'] = before;
  });
}

/** Files below a folder that this process has open. */
const openBelow = (folder: string) =>
  readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      return path.startsWith(`${folder}/`) ? [path] : [];
    } catch {
      return [];
    }
  });

const settingIn = (root: string, store: string): SourceSetting => ({
  root,
  store,
  run: fakeRun({ 'podman container': 'exited\n' }),
  self: ['node', 'kfd-checkpoint'],
  listPages: () => assert.fail('there are no contents'),
  sendFile: nativeServices.sendFile,
  contentBytes: 0,
  rounds: 0,
  sendsMemory: false,
  beforeStop: async () => undefined,
  onNoMemory: () => assert.fail('no memory is sent ahead'),
  onRound: () => undefined,
  whileAsked: async (_, work) => ({ done: await work(), frozenAt: undefined }),
  signal: new AbortController().signal,
  cancelCheckpoint: async () => undefined,
  onProgress: () => undefined,
});

test('what changed between the last two rounds is judged before anything stops', async (t) => {
  await podmanIn(t);
  await standInSsh(t, 'exec cat >/dev/null');
  const [root, store] = [await temporaryFolder(t), await temporaryFolder(t)];
  /** Contents that each checkpoint finds changed. */
  let sizes: number[] = [];
  const judged: (number | undefined)[] = [];
  const setting: SourceSetting = {
    ...settingIn(root, store),
    whileAsked: async ({ folder }, work) => {
      await writeFile(join(folder, 'amdgpu-pages-0-0000.img'), Buffer.alloc(sizes.shift() ?? 0));
      return { done: await work(), frozenAt: undefined };
    },
    beforeStop: async (changed) => {
      judged.push(changed);
      throw new KfdError('E_TIMEOUT', 'too long', { hint: 'none' });
    },
  };
  const link: Pick<Link, 'say'> = { say: () => assert.fail('the target is told of contents') };
  for (const changes of [[4096], [4096, 512], [4096, 512, 0], []]) {
    sizes = [...changes];
    const own = { ...setting, rounds: changes.length };
    const host = sourceHost(firstRecords.source, link as Link, own);
    await assert.rejects(
      host.stop(() => assert.fail('it was stopped')),
      { code: 'E_TIMEOUT' },
    );
    await rm(placesBelow(root).keptOf(firstRecords.source.id), { recursive: true });
  }
  assert.deepEqual(judged, [undefined, 512, 0, undefined]);
});

test('the archive is not kept open when it cannot be announced', async (t) => {
  await podmanIn(t);
  await standInSsh(t, 'echo ready; exec cat >/dev/null');
  const [root, store] = [await temporaryFolder(t), await temporaryFolder(t)];
  let said = 0;
  const link: Pick<Link, 'say'> = {
    say: () => {
      said += 1;
      // The first one is before anything stops.
      if (said > 1) throw new Error('it cannot be said');
    },
  };
  const host = sourceHost(firstRecords.source, link as Link, settingIn(root, store));
  await host.stop(() => undefined);
  assert.ok(openBelow(store).length > 0);
  await assert.rejects(host.send(), /it cannot be said/);
  await until('it is closed', () => openBelow(store).length === 0);
});

test('what a killed restore has left is ended before the next one', async (t) => {
  const root = await temporaryFolder(t);
  const calls: string[] = [];
  const setting: SourceSetting = {
    ...settingIn(root, root),
    self: ['sh', '-c', `test -e ${root}/cleared`],
    run: async (command, args) => {
      calls.push([command, args[0]].join(' '));
      if (command === 'runc') await writeFile(join(root, 'cleared'), '');
      return { status: 0, stdout: calls.length === 1 ? 'exited\n' : 'running\n', stderr: '' };
    },
  };
  await sourceHost(firstRecords.source, {} as Link, setting).bringBack();
  const inspect = 'podman container';
  // Its state and its folder before, its state after.
  assert.deepEqual(calls, [inspect, inspect, 'crun delete', 'runc delete', inspect]);
});
