import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { processName } from '../../src/os/ancestors.js';
import { claimFolder, removeDeadFolders, sessionPids } from '../../src/session/control/folders.js';
import { temporaryFolder } from './paths.js';

test('folders of ended sessions go, with what is in them; others stay', async (t) => {
  const root = await temporaryFolder(t);
  const folder = join(root, 'run/kfd-checkpoint');
  const gone = spawn('true');
  await once(gone, 'exit');
  const endedPid = gone.pid as number;
  const put = async (criuPid: number, owner?: string) => {
    await mkdir(join(folder, String(criuPid)), { recursive: true });
    if (owner !== undefined) await writeFile(join(folder, String(criuPid), 'owner'), owner);
    await writeFile(join(folder, String(criuPid), 'sock'), '');
  };
  claimFolder(join(folder, '4194301'));
  await put(process.pid); // starting: it has no owner yet, and its CRIU lives
  await put(endedPid); // without an owner, and without its CRIU
  await put(4194302, `${endedPid}-123`);
  await put(4194303, `${process.pid}-1`); // the pid belongs to another process by now
  await put(4194304, 'nonsense');
  await put(4194305, `${process.ppid}-${processName(process.ppid).split('-')[1]}`);
  await put(process.ppid, ''); // its session was about to write its name; its CRIU lives
  const parents = [
    `parent-${processName(process.pid)}`,
    `contents-${processName(process.pid)}`,
    `parent-${process.pid}-1`,
    `contents-${process.pid}-1`,
    'parent-0-1',
  ];
  for (const name of [...parents, `parent-${endedPid}-123`]) await mkdir(join(folder, name));
  const sessions = [endedPid, 4194302, 4194303, 4194304].map(String);
  const dead = [
    ...sessions,
    `parent-${process.pid}-1`,
    `contents-${process.pid}-1`,
    `parent-${endedPid}-123`,
  ];
  assert.deepEqual(removeDeadFolders(folder).sort(), dead.sort());
  const stay = [
    `${process.pid}`,
    `${process.ppid}`,
    '4194301',
    '4194305',
    `parent-${processName(process.pid)}`,
    `contents-${processName(process.pid)}`,
    'parent-0-1',
  ];
  assert.deepEqual((await readdir(folder)).sort(), stay.sort());
  assert.deepEqual(removeDeadFolders(folder), []);
  assert.deepEqual(removeDeadFolders(join(folder, 'nowhere')), []);
});

test('a folder is for root alone, and names the process of its session', async (t) => {
  const folder = join(await temporaryFolder(t), 'run/4711');
  claimFolder(folder);
  claimFolder(folder); // again after a session that was killed
  assert.equal((await stat(folder)).mode & 0o777, 0o700);
  assert.equal((await stat(join(folder, 'owner'))).mode & 0o777, 0o600);
  assert.equal(await readFile(join(folder, 'owner'), 'utf8'), processName(process.pid));
});

test('sessions are listed by their numbers; what cannot be read is an error, not an empty list', async (t) => {
  const root = await temporaryFolder(t);
  const run = join(root, 'run/kfd-checkpoint');
  for (const name of ['100', '9', '20', 'parent-1-1'])
    await mkdir(join(run, name), { recursive: true });
  assert.deepEqual(sessionPids(root), [9, 20, 100]);
  await mkdir(join(run, '9/owner'));
  assert.throws(() => removeDeadFolders(run), { code: 'EISDIR' });
  await rm(run, { recursive: true });
  assert.deepEqual(sessionPids(root), []);
  await symlink(run, run);
  assert.throws(() => sessionPids(root), { code: 'E_IO', message: /^sessions: ELOOP/ });
});
