/** What the source of a migration does on its host, with a stand-in for podman. */

import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { nativeServices } from '../../src/cli/native-services.js';
import type { Link } from '../../src/migrate/link.js';
import { sourceHost } from '../../src/migrate/source-host.js';
import { fakeRun } from './cli-context.js';
import { standInSsh } from './migrate-hosts.js';
import { firstRecords } from './migrate-processes.js';
import { until } from './migrate-two-places.js';
import { temporaryFolder } from './paths.js';

/** Puts a podman into PATH that writes an archive. */
async function podmanIn(t: TestContext): Promise<void> {
  const bin = await temporaryFolder(t);
  await writeFile(join(bin, 'podman'), '#!/bin/sh\necho archive >/proc/self/fd/4\n');
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
  const host = sourceHost(firstRecords.source, link as Link, {
    root,
    store,
    run: fakeRun({ 'podman container': 'exited\n' }),
    self: ['node', 'kfd-checkpoint'],
    listPages: () => assert.fail('there are no contents'),
    sendFile: nativeServices.sendFile,
    contentBytes: 0,
    rounds: 0,
    sendsMemory: false,
    onNoMemory: () => assert.fail('no memory is sent ahead'),
    onRound: () => undefined,
    whileAsked: async (_, work) => ({ done: await work(), frozenAt: undefined }),
    signal: new AbortController().signal,
    cancelCheckpoint: async () => undefined,
    onProgress: () => undefined,
  });
  await host.stop(() => undefined);
  assert.ok(openBelow(store).length > 0);
  await assert.rejects(host.send(), /it cannot be said/);
  await until('it is closed', () => openBelow(store).length === 0);
});
