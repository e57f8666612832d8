/** A restore in place, where podman was killed in an earlier one. */

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Run } from '../../src/os/exec.js';
import { plainCheckpoint, unpackTo } from './archive-builder.js';
import { cli } from './cli-context.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const id = 'f00dfeed00112233445566778899aabbccddeeff00112233445566778899aabb';

interface Host {
  /** The runtime that has a folder of the container. */
  readonly runtime?: 'crun' | 'runc';
  /** What its `state` prints. */
  readonly state?: string;
  /** What podman says of the container. */
  readonly podmanState?: string;
  /** Restores that fail. */
  readonly failures: number;
}

/** `kfd-checkpoint restore job` on such a host. `calls`: of podman's restore, and of the runtimes. */
async function restore(
  t: TestContext,
  { runtime, state = '', podmanState = 'exited', failures }: Host,
) {
  const bundle = join(await temporaryFolder(t), id, 'userdata');
  const { 'config.dump': _, 'spec.dump': spec = '', ...files } = plainCheckpoint();
  await unpackTo(bundle, { ...files, 'config.json': spec });
  const root = await bentHost(t, 'no-kfd', {});
  if (runtime !== undefined) await mkdir(join(root, 'run', runtime, id), { recursive: true });
  const calls: string[] = [];
  const run: Run = async (command, args) => {
    const said = (stdout: string) => ({ status: 0, stdout, stderr: '' });
    if (args.includes('{{.State.Status}}')) return said(`${podmanState}\n`);
    if (command === 'podman') return said(JSON.stringify([{ Id: id, StaticDir: bundle }]));
    calls.push([command, ...args].join(' '));
    return said(state);
  };
  const result = await cli(['restore', '--root', root, 'job', '--keep'], {
    run,
    runThrough: async (command, words) => {
      calls.push([command, ...words].join(' '));
      return calls.filter((call) => call.startsWith('podman')).length > failures ? 0 : 125;
    },
  });
  return { ...result, calls };
}

const asked = `podman container restore --keep ${id}`;
const ended = [`crun delete --force ${id}`, `runc delete --force ${id}`];

test('what has no processes at the runtime is ended, and the container restored', async (t) => {
  for (const state of ['{"status":"stopped"}', '', '{}']) {
    const { code, calls, stderr } = await restore(t, { runtime: 'runc', state, failures: 1 });
    assert.equal(code, 0, stderr);
    assert.deepEqual(calls, [asked, `runc state ${id}`, ...ended, asked]);
    assert.match(stderr, /^runc had the container from a killed restore: that is removed/m);
  }
});

test('what has some goes on, and the message names what would end it', async (t) => {
  for (const status of ['running', 'paused', 'created']) {
    const state = JSON.stringify({ ociVersion: '1.0.0', status });
    const { code, calls, stderr } = await restore(t, { runtime: 'crun', state, failures: 1 });
    assert.equal(code, 3);
    assert.deepEqual(calls, [asked, `crun state ${id}`]);
    assert.match(stderr, /running at crun, and podman does not know it/);
    assert.match(stderr, new RegExp(`"crun delete --force ${id}" ends it`));
  }
});

test('any other failure is that of podman, and nothing is ended', async (t) => {
  const without = await restore(t, { failures: 1 });
  assert.equal(without.code, 125);
  assert.deepEqual(without.calls, [asked]);
  const known = await restore(t, { runtime: 'crun', podmanState: 'running', failures: 1 });
  assert.equal(known.code, 125);
  assert.deepEqual(known.calls, [asked]);
});

test('a restore that fails once more is not tried for ever', async (t) => {
  const { code, calls } = await restore(t, { runtime: 'crun', failures: 2 });
  assert.equal(code, 125);
  assert.deepEqual(calls.filter((call) => call === asked).length, 2);
});
