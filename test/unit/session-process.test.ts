/** The session's program from its start to its end: its words, its status, its log, and what it leaves. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, realpath, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { withRequest } from '../../src/cli/command-request.js';
import { temporaryFolder } from './paths.js';
import { playedCriu, startSession } from './session-process.js';

const runFolder = ({ pid }: { readonly pid?: number | undefined }) => `/run/kfd-checkpoint/${pid}`;

/** A folder for logs, and what the only one in it says. */
async function logged(t: TestContext) {
  const log_dir = await temporaryFolder(t);
  const lines = (message: string) => {
    const [name = ''] = readdirSync(log_dir).filter((one) => !one.startsWith('2000'));
    const text = readFileSync(join(log_dir, name), 'utf8').trim().split('\n');
    const all = text.map((line) => JSON.parse(line) as Record<string, unknown>);
    return all.filter(({ msg }) => msg === message);
  };
  return { log_dir, lines };
}

test('a session of a checkpoint removes what an earlier one has left in its image directory', async (t) => {
  const { log_dir, lines } = await logged(t);
  const images = await temporaryFolder(t);
  for (const name of ['kfd-state-0.img', 'core-1.img']) await writeFile(join(images, name), '');
  const one = await startSession(t, images, { operation: 'dump', config: { log_dir } });
  // It is refused where there is no KFD.
  if (existsSync('/dev/kfd')) assert.equal(one.answer, 'ready\n');
  else assert.match(one.answer, /^E_IO: session: \/dev\/kfd: .*; session log: /);
  assert.deepEqual(readdirSync(images), ['core-1.img']);
  one.criu.kill('SIGKILL');
  assert.equal(await one.status, 0);
  const [name = ''] = readdirSync(log_dir);
  assert.match(name, new RegExp(`-dump-${one.criu.pid}\\.log$`));
  // Whether this host has limits for it, or why not.
  assert.equal(lines('limits').length + lines('no limits').length, 1);
  assert.deepEqual(lines('unknown options'), []);
});

test('a session of a checkpoint takes the folder of contents that its command names, or says why not', async (t) => {
  const { log_dir, lines } = await logged(t);
  const folder = await realpath(await temporaryFolder(t));
  const request = { operation: 'dump', folder } as const;
  const start = async () => {
    const images = await temporaryFolder(t);
    const run = '/run/kfd-checkpoint';
    return withRequest(run, request, () =>
      startSession(t, images, { operation: 'dump', config: { log_dir } }),
    );
  };
  const one = await start();
  one.criu.kill('SIGKILL');
  assert.equal(await one.status, 0);
  assert.deepEqual(
    lines('contents folder').map((line) => line['folder']),
    [folder],
  );
  await writeFile(join(folder, 'amdgpu-pages-0-0000.img'), 'of another checkpoint');
  const other = await start();
  assert.match(
    other.answer,
    /^E_USAGE: \/\S+: has pages files already \(name a folder for this checkpoint alone\); session log: /,
  );
  assert.equal(await other.status, 1);
  assert.deepEqual(readdirSync(folder), ['amdgpu-pages-0-0000.img'], 'it is not removed');
});

test('a session keeps the newest logs, and names options that it does not know', async (t) => {
  const { log_dir, lines } = await logged(t);
  const old = [1, 2, 3].map((day) => `2000-01-0${day}T00-00-00-000Z-dump-${day}.log`);
  for (const name of old) await writeFile(join(log_dir, name), '');
  const config = { log_dir, keep_logs: 2, keep_log: 7 };
  const one = await startSession(t, await temporaryFolder(t), { config });
  assert.equal(readdirSync(log_dir).length, 4, 'its work comes first');
  one.criu.kill('SIGKILL');
  assert.equal(await one.status, 0);
  assert.deepEqual(readdirSync(log_dir).slice(0, -1), old.slice(2));
  const [line] = lines('unknown options');
  assert.deepEqual(line?.['options'], ['keep_log']);
  // Other tests may have left some. Without any there is no line.
  const removed = lines('removed folders of killed sessions').map((one) => one['dead']);
  assert.ok(!removed.some((dead) => Array.isArray(dead) && dead.length === 0));
});

/** A session is killed. The names that the next one has removed, and that of the killed one's folder. */
async function removedAfterKill(t: TestContext) {
  const killed = await startSession(t, await temporaryFolder(t));
  const gone = once(killed.daemon, 'exit');
  killed.daemon.kill('SIGKILL');
  await gone;
  const { log_dir, lines } = await logged(t);
  const next = await startSession(t, await temporaryFolder(t), { config: { log_dir } });
  next.criu.kill('SIGKILL');
  assert.equal(await next.status, 0);
  assert.ok(!existsSync(runFolder(killed.criu)));
  const dead = lines('removed folders of killed sessions').flatMap((line) => line['dead']);
  return { dead, folder: String(killed.criu.pid) };
}

test('a session names the folders of killed ones that it has removed', async (t) => {
  // Sessions of other tests run at the same time. One of them may be the first to remove the folder.
  for (let attempt = 0; attempt < 10; attempt++) {
    const { dead, folder } = await removedAfterKill(t);
    if (dead.includes(folder)) return;
  }
  assert.fail('no session has named the folder of the one before');
});

test('a session without all words, or that cannot be told, ends at once with status 1', async (t) => {
  const few = await startSession(t, undefined, { operation: 'dump' });
  const usage = 'usage: main.js dump|restore CRIU_PID IMAGE_DIRECTORY';
  assert.match(few.answer, new RegExp(`^E_INTERNAL: session: ${usage.replaceAll('|', '\\|')}`));
  assert.match(await few.errors, new RegExp(usage.replaceAll('|', '\\|')));
  assert.equal(await few.status, 1);
  const untold = await startSession(t, await temporaryFolder(t), { fault: 'pipe' });
  t.after(() => rm(runFolder(untold.criu), { recursive: true, force: true }));
  assert.equal(await untold.status, 1);
  assert.match(await untold.errors, /Z session: .*EIO: played/);
  assert.equal(untold.said(), 'ready\n', 'once');
});

test('a session that fails late says so on standard error only: its pipe is closed', async (t) => {
  const one = await startSession(t, await temporaryFolder(t), { fault: 'folder' });
  t.after(() => rm(runFolder(one.criu), { recursive: true, force: true }));
  assert.equal(one.answer, 'ready\n');
  one.criu.kill('SIGKILL');
  assert.equal(await one.status, 1);
  assert.match(await one.errors, /^\d{4}-\S+Z session: .*EIO: played/);
  assert.equal(one.said(), 'ready\n');
});

test('a session that cannot listen is refused, and leaves no folder', async (t) => {
  const criu = playedCriu(t);
  const folder = runFolder(criu);
  await mkdir(join(folder, 'sock'), { recursive: true });
  t.after(() => rm(folder, { recursive: true, force: true }));
  const one = await startSession(t, await temporaryFolder(t), {}, criu);
  assert.match(one.answer, /^E_IO: session: .*; session log: /);
  assert.equal(await one.status, 0);
  assert.ok(!existsSync(folder));
});

test('a session is counted when it has ended, and one that is refused, too', async (t) => {
  const { log_dir } = await logged(t);
  const metrics_file = join(await temporaryFolder(t), 'kfd.prom');
  const bend = { config: { log_dir, metrics_file } };
  const ended = await startSession(t, await temporaryFolder(t), bend);
  assert.ok(!existsSync(metrics_file), 'CRIU comes first');
  ended.criu.kill('SIGKILL');
  assert.equal(await ended.status, 0);
  const criu = playedCriu(t);
  await mkdir(join(runFolder(criu), 'sock'), { recursive: true });
  t.after(() => rm(runFolder(criu), { recursive: true, force: true }));
  const refused = await startSession(t, await temporaryFolder(t), bend, criu);
  assert.equal(await refused.status, 0);
  const text = readFileSync(metrics_file, 'utf8');
  assert.match(text, /^kfd_checkpoint_sessions_total\{operation="restore",outcome="failed"\} 2$/m);
  assert.match(text, /^kfd_checkpoint_failures_total\{operation="restore",code="E_IO"\} 1$/m);
  assert.match(
    text,
    /^kfd_checkpoint_phase_seconds_total\{operation="restore",phase="prepare"\} \d/m,
  );
});
