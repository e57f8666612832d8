import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { defaultConfig, parseConfig } from '../../src/config.js';
import { memoryLimit, OwnCgroup } from '../../src/session/own-cgroup.js';
import { temporaryFolder } from './paths.js';

/** Folders that look like the kernel's. Without `path` as under cgroup v1. */
async function kernel(t: TestContext, path = '/kfd-checkpoint/4711') {
  const root = await temporaryFolder(t);
  const folders = { cgroups: join(root, 'cgroups'), proc: join(root, 'proc') };
  const own = join(folders.cgroups, path);
  await mkdir(own, { recursive: true });
  await mkdir(folders.proc);
  await writeFile(join(folders.cgroups, 'cgroup.controllers'), 'memory pids');
  await writeFile(join(folders.proc, 'cgroup'), `1:name=systemd:/\n0::${path}\n`);
  const lines: [unknown, string][] = [];
  const note = (fields: unknown, message: string) => void lines.push([fields, message]);
  return { folders, own, lines, log: { info: note, warn: note } as never };
}

test('a session limits its memory and its tasks, and is the first that the kernel ends', async (t) => {
  const { folders, own, lines, log } = await kernel(t);
  new OwnCgroup(folders).limit(defaultConfig(), log, undefined);
  const read = (path: string) => readFileSync(join(folders.cgroups, path), 'utf8');
  const bytes = (1024 + 4096 + 4096) * 2 ** 20;
  assert.equal(read('cgroup.subtree_control'), '+memory +pids');
  assert.equal(read('kfd-checkpoint/cgroup.subtree_control'), '+memory +pids');
  assert.equal(readFileSync(join(own, 'memory.max'), 'utf8'), String(bytes));
  assert.equal(readFileSync(join(own, 'pids.max'), 'utf8'), '4096');
  assert.equal(existsSync(join(own, 'memory.high')), false, 'it would delay writes');
  assert.equal(readFileSync(join(folders.proc, 'oom_score_adj'), 'utf8'), '1000');
  assert.deepEqual(lines, [[{ memory_bytes: bytes, tasks: 4096 }, 'limits']]);
  await writeFile(join(own, 'memory.peak'), '123\n');
  assert.equal(new OwnCgroup(folders).peakMemory(), 123);
});

test('a checkpoint into a file system in memory has no memory limit: it would end the session', async (t) => {
  const { folders, own, lines, log } = await kernel(t);
  new OwnCgroup(folders).limit(defaultConfig(), log, '/dev/shm');
  assert.deepEqual(lines, [[{ memory_bytes: 'none', tasks: 4096 }, 'limits']]);
  assert.deepEqual(
    [existsSync(join(own, 'memory.max')), existsSync(join(own, 'pids.max'))],
    [false, true],
  );
  new OwnCgroup(folders).limit(defaultConfig(), log, '/proc');
  assert.ok(existsSync(join(own, 'memory.max')), 'no such file system');
});

test('the limits grow with the memory for copies, or are those of the configuration', () => {
  const mib = 2 ** 20;
  const limit = (text: string) => memoryLimit(parseConfig(text).config) / mib;
  assert.equal(limit('{"staging_total_mib":2048,"freeze_host_mib":0}'), 2048 + 4096);
  assert.equal(limit('{"session_memory_mib":700,"freeze_host_mib":9000}'), 700);
  assert.throws(() => parseConfig('{"session_memory_mib":255}'), {
    code: 'E_CONFIG',
    message: /"session_memory_mib" must be 0, or a whole number from 256 to 16777216/,
  });
  assert.throws(() => parseConfig('{"session_tasks":63}'), { code: 'E_CONFIG' });
});

test('a host without cgroups of version 2 has no limits, and the log says so', async (t) => {
  for (const path of ['/', '/kfd-checkpoint', '/user.slice/4711']) {
    const { folders, own, lines, log } = await kernel(t, path);
    new OwnCgroup(folders).limit(defaultConfig(), log, undefined);
    assert.deepEqual(lines, [[{ reason: 'the session has no cgroup of its own' }, 'no limits']]);
    assert.equal(existsSync(join(own, 'memory.max')), false);
    new OwnCgroup(folders).leave();
    assert.ok(existsSync(own), 'not its own');
    assert.equal(new OwnCgroup(folders).peakMemory(), undefined);
  }
});

test('limits that the kernel refuses stop no session', async (t) => {
  const { folders, own, lines, log } = await kernel(t);
  await mkdir(join(own, 'memory.max'));
  new OwnCgroup(folders).limit(defaultConfig(), log, undefined);
  assert.deepEqual(
    lines.map(([, message]) => message),
    ['no limits'],
  );
  await rm(folders.proc, { recursive: true });
  new OwnCgroup(folders).limit(defaultConfig(), log, undefined);
  new OwnCgroup(folders).leave();
  assert.equal(lines.length, 2);
});

test('at its end a session removes its cgroup from outside', async (t) => {
  const { folders, own } = await kernel(t);
  new OwnCgroup(folders).leave();
  assert.equal(readFileSync(join(folders.cgroups, 'cgroup.procs'), 'utf8'), '0');
  assert.equal(existsSync(own), false);
});

test('a session that has no descriptors left removes it, too', async (t) => {
  const { folders, own } = await kernel(t);
  const cgroup = new OwnCgroup(folders);
  // As for a process that cannot open anything any more.
  await rm(folders.proc, { recursive: true });
  await rename(join(folders.cgroups, 'cgroup.procs'), join(folders.cgroups, 'open'));
  await mkdir(join(folders.cgroups, 'cgroup.procs'));
  cgroup.leave();
  assert.equal(readFileSync(join(folders.cgroups, 'open'), 'utf8'), '0');
  assert.equal(existsSync(own), false);
});
