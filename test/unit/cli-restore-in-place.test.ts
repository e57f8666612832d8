/** A restore in place, where podman was killed in an earlier one. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
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
  /** What its `state` prints, and its status; undefined: it was killed. */
  readonly state?: string;
  readonly status?: number | undefined;
  /** What podman says of the container. */
  readonly podmanState?: string;
  /** podman's folder of it has what crun leaves. */
  readonly hasRoot?: boolean;
}

/** `kfd-checkpoint restore job` on such a host. `calls`: of podman's restore, and of the runtimes. */
async function restore(t: TestContext, there: Host) {
  const { runtime, state = '', podmanState = 'exited', hasRoot = false } = there;
  const status = 'status' in there ? there.status : 0;
  const bundle = join(await temporaryFolder(t), id, 'userdata');
  const { 'config.dump': _, 'spec.dump': spec = '', ...files } = plainCheckpoint();
  await unpackTo(bundle, { ...files, 'config.json': spec });
  const root = await bentHost(t, 'no-kfd', {});
  if (runtime !== undefined) await mkdir(join(root, 'run', runtime, id), { recursive: true });
  if (hasRoot) await mkdir(join(bundle, 'criu-root'));
  const calls: string[] = [];
  const run: Run = async (command, args) => {
    const said = (stdout: string) => ({ status: 0, stdout, stderr: '' });
    if (args.includes('{{.State.Status}}')) return said(`${podmanState}\n`);
    if (args.includes('{{.StaticDir}}')) return said(`${bundle}\n`);
    if (command === 'podman') return said(JSON.stringify([{ Id: id, StaticDir: bundle }]));
    calls.push([command, ...args].join(' '));
    return { ...said(state), status };
  };
  const result = await cli(['restore', '--root', root, 'job', '--keep'], {
    run,
    runThrough: async (command, words) => {
      calls.push([command, ...words].join(' '));
      return 0;
    },
  });
  return { ...result, calls, hasRoot: existsSync(join(bundle, 'criu-root')) };
}

const asked = `podman container restore --keep ${id}`;
const ended = [`crun delete --force ${id}`, `runc delete --force ${id}`];

test('what has no processes at the runtime is ended before the restore', async (t) => {
  for (const said of [{ state: '{"status":"stopped"}' }, { status: 1 }]) {
    const { code, calls, stderr } = await restore(t, { runtime: 'runc', ...said });
    assert.equal(code, 0, stderr);
    assert.deepEqual(calls, [`runc state ${id}`, ...ended, asked]);
    assert.match(stderr, /^removed what a killed restore had left of the container at runc$/m);
  }
});

test('the folder that crun leaves in that of podman goes, too', async (t) => {
  const { code, calls, hasRoot } = await restore(t, { hasRoot: true });
  assert.deepEqual([code, hasRoot, calls], [0, false, [...ended, asked]]);
});

test('what has some goes on, and the message names what would end it', async (t) => {
  const states = ['running', 'paused', 'created'].map((status) => ({
    ociVersion: '1.0.0',
    status,
  }));
  for (const state of [...states.map((one) => JSON.stringify(one)), '{}', '']) {
    const { code, calls, stderr } = await restore(t, { runtime: 'crun', state });
    assert.equal(code, 3);
    assert.deepEqual(calls, [`crun state ${id}`]);
    assert.match(stderr, /running at crun, and podman does not know it/);
    assert.match(stderr, new RegExp(`"crun delete --force ${id}" ends it`));
  }
});

test('nothing is ended where the runtime does not tell', async (t) => {
  const { code, calls, stderr } = await restore(t, { runtime: 'crun', status: undefined });
  assert.equal(code, 6);
  assert.deepEqual(calls, [`crun state ${id}`]);
  assert.match(stderr, /crun: did not tell the state of f00d/);
});

test('nothing is ended where podman knows the container, or nothing was left', async (t) => {
  const state = '{"status":"running"}';
  const known = await restore(t, { runtime: 'crun', state, podmanState: 'running' });
  assert.deepEqual([known.code, known.calls], [0, [`crun state ${id}`, asked]]);
  const without = await restore(t, {});
  assert.deepEqual([without.code, without.calls], [0, [asked]]);
});
