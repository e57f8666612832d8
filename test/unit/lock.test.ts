/** One process at a time plays a side, and what podman does for it is waited for or ended. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { open, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { lastLines, Work } from '../../src/migrate/work.js';
import { killHolder, Lock } from '../../src/os/lock.js';
import { holder } from './lock-holder.js';
import { temporaryFolder } from './paths.js';

async function until(isSo: () => boolean): Promise<void> {
  for (let left = 1000; !isSo(); left -= 1) {
    assert.ok(left > 0, 'in time');
    await delay(10);
  }
}

test('one process has a lock, and the next one after it was killed', async (t) => {
  const path = join(await temporaryFolder(t), 'run/x.lock');
  const child = await holder(t, path);
  assert.equal(await Lock.tryTake(path), undefined);
  let looks = 0;
  assert.equal(await Lock.take(path, () => ++looks > 2), undefined);
  await killHolder(path);
  await once(child, 'exit');
  assert.equal(child.signalCode, 'SIGKILL');
  const lock = await Lock.take(path, () => false);
  assert.ok(lock);
  assert.equal(await Lock.tryTake(path), undefined);
  await lock.release();
  const again = await Lock.tryTake(path);
  await again?.remove();
  assert.equal(existsSync(path), false);
});

test('a lock whose file was removed and made again is none', async (t) => {
  const path = join(await temporaryFolder(t), 'x.lock');
  const lock = await Lock.tryTake(path);
  await rm(path);
  const other = await Lock.tryTake(path);
  assert.ok(lock && other);
  assert.equal(await Lock.tryTake(path), undefined);
  await lock.release();
  assert.equal(await Lock.tryTake(path), undefined);
  await other.remove();
});

test('nobody is killed by what is no name of a living process, and nobody kills itself', async (t) => {
  const path = join(await temporaryFolder(t), 'x.lock');
  const bystander = spawn('sleep', ['60'], { stdio: 'ignore' });
  t.after(() => bystander.kill('SIGKILL'));
  await once(bystander, 'spawn');
  for (const text of ['', '1\n', `${bystander.pid}\n`, `${bystander.pid}-1\n`, 'x-1\n', '99-'])
    await writeFile(path, text).then(() => killHolder(path));
  const lock = await Lock.tryTake(path);
  await killHolder(path);
  assert.equal(bystander.signalCode, null);
  process.kill(bystander.pid ?? 0, 0);
  await lock?.release();
});

test('a program at work is waited for, and ended when it has had its time', async (t) => {
  const folder = await temporaryFolder(t);
  const work = new Work(join(folder, 'x.work'));
  const log = join(folder, 'log/x.log');
  const done = join(folder, 'done');
  const script = `echo began; echo $0 >&2; until test -e ${folder}/go; do sleep 0.02; done; : >${done}`;
  const ended = work.run(['sh', '-c', script, 'last'], { log });
  await until(() => existsSync(log) && readFileSync(log, 'utf8') === 'began\nlast\n');
  await assert.rejects(work.run(['true'], { log: `${log}2` }), { code: 'E_HOST' });
  const settled = new Work(join(folder, 'x.work')).settle(() => false);
  await writeFile(join(folder, 'go'), '');
  await settled;
  assert.ok(existsSync(done));
  assert.equal(await ended, 0);
  assert.deepEqual(await lastLines(log), ['began', 'last']);
  const failing = work.run(['sh', '-c', 'sleep 100; true'], { log });
  await until(() => /^\d+\n/.test(readFileSync(join(folder, 'x.work'), 'utf8')));
  await work.settle(() => true);
  assert.equal(await failing, undefined);
  assert.equal(await work.run(['false'], { log }), 1);
  await work.settle(() => true);
});

test('what a killed program has left in its group is waited for', async (t) => {
  const folder = await temporaryFolder(t);
  const work = new Work(join(folder, 'x.work'));
  const go = join(folder, 'go');
  const left = `(until test -e ${go}; do sleep 0.02; done; echo end) & : >${folder}/left; kill -9 $$`;
  const ended = work.run(['sh', '-c', left], { log: join(folder, 'log') });
  await until(() => existsSync(join(folder, 'left')));
  let isOver = false;
  const settled = work
    .settle(() => false)
    .then(() => {
      isOver = true;
    });
  for (let looks = 0; looks < 20; looks += 1) await delay(50);
  assert.equal(isOver, false);
  await writeFile(go, '');
  await settled;
  assert.equal(await ended, 128 + 9);
  assert.match(await readFile(join(folder, 'log'), 'utf8'), /end\n$/);
});

test('a program keeps the lock when whoever began it is killed, and gets a descriptor', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'x.work');
  const module = new URL('../../src/migrate/work.js', import.meta.url).href;
  const sleeps = `until test -e ${folder}/go; do sleep 0.02; done; echo end >&2`;
  const code = `import { Work } from '${module}';
    await new Work('${path}').run(['sh', '-c', '${sleeps}'], { log: '${folder}/log' });`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: 'inherit' });
  await until(() => existsSync(path) && /^\d+\n/.test(readFileSync(path, 'utf8')));
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal(await Lock.tryTake(path), undefined);
  await writeFile(join(folder, 'go'), '');
  await new Work(path).settle(() => false);
  assert.equal(await readFile(join(folder, 'log'), 'utf8'), 'end\n');
  const file = await open(join(folder, 'out'), 'w');
  const options = { log: join(folder, 'log'), descriptor: file.fd };
  assert.equal(await new Work(path).run(['sh', '-c', 'echo x >/proc/self/fd/4'], options), 0);
  await file.close();
  assert.equal(await readFile(join(folder, 'out'), 'utf8'), 'x\n');
});
