/** The real program, with a standard output or standard error that takes nothing. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { inventory } from './archive-builder.js';
import { elf } from './elf.js';
import { repository, temporaryFolder } from './paths.js';

const prefix = '/usr/lib/kfd-checkpoint';
const written = [
  'usr/share/containers/oci/hooks.d/50-kfd-checkpoint.json',
  'var/lib/kfd-checkpoint/criu/kfd_checkpoint.so',
  'var/lib/kfd-checkpoint/kfd-checkpoint-launch',
  'var/lib/kfd-checkpoint/criu-action',
  'etc/criu/default.conf',
];

/** A system with the package unpacked. */
async function system(t: TestContext): Promise<string> {
  const root = await temporaryFolder(t);
  for (const part of ['criu/kfd_checkpoint.so', 'libexec/kfd-checkpoint-launch']) {
    await mkdir(dirname(join(root, prefix, part)), { recursive: true });
    await writeFile(join(root, prefix, part), elf(part));
  }
  await cp(join(repository, 'hooks'), join(root, prefix, 'hooks'), { recursive: true });
  return root;
}

/** Standard streams of the program, in bash. A pipe's reader has ended before the program starts. */
const streams = {
  'a closed pipe': 'exec 3> >(:); wait $!; exec "$@" >&3',
  'a full disk': 'exec "$@" >/dev/full',
  'errors on a closed pipe': 'exec 3> >(:); wait $!; exec "$@" 2>&3',
  'errors on a full disk': 'exec "$@" 2>/dev/full',
};

function run(redirected: keyof typeof streams, ...args: readonly string[]) {
  const program = [process.execPath, join(repository, 'dist/src/cli/main.js'), ...args];
  return spawnSync('bash', ['-c', streams[redirected], 'bash', ...program], { encoding: 'utf8' });
}

for (const [name, expected] of [
  ['a closed pipe', [0, '']],
  ['errors on a closed pipe', [0, '']],
  ['errors on a full disk', [0, '']],
] as const) {
  test(`configure writes all its files with ${name}`, async (t) => {
    const root = await system(t);
    const { status, stderr } = run(name, 'configure', '--root', root, '--prefix', prefix);
    assert.deepEqual([status, stderr], expected);
    for (const path of written) assert.ok(existsSync(join(root, path)), path);
  });
}

test('configure writes all its files when its output has no room, and fails with E_IO', async (t) => {
  const root = await system(t);
  const { status, stderr } = run('a full disk', 'configure', '--root', root, '--prefix', prefix);
  assert.equal(status, 1);
  assert.match(stderr, /^Error: standard output: .*ENOSPC.*\nHint: {2}.+\n$/);
  for (const path of written) assert.ok(existsSync(join(root, path)), path);
});

test('a verb that fails keeps its own status, whatever becomes of its output', async (t) => {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'checkpoint'));
  await writeFile(join(folder, 'checkpoint/inventory.img'), inventory);
  await writeFile(join(folder, 'checkpoint/kfd-state-1.img'), 'x');
  for (const name of Object.keys(streams) as (keyof typeof streams)[]) {
    const { status, stderr } = run(name, 'inspect', folder);
    assert.equal(status, 5, name);
    if (!name.startsWith('errors')) assert.match(stderr, /^Error: .*never sealed/, name);
  }
});
