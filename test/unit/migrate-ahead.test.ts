/** Contents that are sent ahead: what is told when they cannot be read or taken. */

import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { receiveRound, sendRound } from '../../src/migrate/ahead.js';
import { placesBelow } from '../../src/migrate/places.js';
import { standInSsh } from './migrate-hosts.js';
import { temporaryFolder } from './paths.js';

const id = '1a'.repeat(16);

function way() {
  const cancel = new AbortController();
  const setting = {
    host: 'host-b',
    id,
    now: async () => ({ bootId: 'one', ms: 0 }),
    signal: cancel.signal,
    onProgress: () => undefined,
  };
  return { cancel, setting };
}

test('a round arrives as a tar archive of its folder', async (t) => {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'round'));
  await writeFile(join(folder, 'round/file'), 'contents');
  await standInSsh(t, `echo "$*" >${folder}/words; exec tar -C ${folder} -xf -`);
  await sendRound(join(folder, 'round'), 3, way().setting);
  assert.match(
    await readFile(join(folder, 'words'), 'utf8'),
    / -- host-b kfd-checkpoint migrate-contents --round 3 --format json 1a+/,
  );
  assert.equal(await readFile(join(folder, 'file'), 'utf8'), 'contents');
});

test('a folder that cannot be read is told, although the target has taken all', async (t) => {
  const folder = await temporaryFolder(t);
  await standInSsh(t, 'exec cat >/dev/null');
  await assert.rejects(sendRound(join(folder, 'none'), 0, way().setting), {
    code: 'E_IO',
    message: /none: cannot be read/,
  });
});

test('one that is cancelled does not wait for a target that hangs', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'file'), Buffer.alloc(1 << 20));
  await standInSsh(t, `: >${folder}/begun; exec sleep 1000`);
  const { cancel, setting } = way();
  const sent = sendRound(folder, 0, setting);
  cancel.abort();
  await assert.rejects(sent, { code: 'E_CANCELLED' });
});

test('a round that nobody waits for is refused', async (t) => {
  await assert.rejects(receiveRound(id, 0, placesBelow(await temporaryFolder(t))), {
    code: 'E_NOT_FOUND',
    message: /nobody waits for its contents/,
  });
});
