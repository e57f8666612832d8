/** checkpointctl's sub-command `kfd`, by the contract of its plugins. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { repository, temporaryFolder } from './paths.js';

const plugin = join(repository, 'packaging/checkpointctl-kfd');

test('one line of description and status 42, without starting anything', () => {
  const { status, stdout, stderr } = spawnSync(plugin, ['--plugin-description'], {
    encoding: 'utf8',
    env: { PATH: '/nonexistent' },
  });
  assert.deepEqual([status, stderr], [42, '']);
  assert.match(stdout, /^\S.+\n$/);
});

test('an archive is shown as inspect shows it, with the same options and status', async (t) => {
  const folder = await temporaryFolder(t);
  const program = '#!/bin/sh\nprintf "%s|" "$@"\nexit 5\n';
  await writeFile(join(folder, 'kfd-checkpoint'), program, { mode: 0o755 });
  const { status, stdout } = spawnSync(plugin, ['--format', 'json', 'a job.tar'], {
    encoding: 'utf8',
    env: { PATH: `${folder}:/usr/bin:/bin` },
  });
  assert.deepEqual([status, stdout], [5, 'inspect|--format|json|a job.tar|']);
});
