import assert from 'node:assert/strict';
import childProcess from 'node:child_process';
import { getEventListeners } from 'node:events';
import fs, { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  lineage,
  processName,
  processNameIfAny,
  processStats,
  startTime,
} from '../../src/os/ancestors.js';
import { maxPrinted, run, runThrough } from '../../src/os/exec.js';
import { patched } from './patched.js';
import { temporaryFolder } from './paths.js';

const sh = (script: string, options = {}) => run('sh', ['-c', script], options);

test('the result has the status and both outputs', async () => {
  assert.deepEqual(await sh('echo a; echo b >&2'), { status: 0, stdout: 'a\n', stderr: 'b\n' });
  assert.deepEqual(await sh('echo a; exit 7'), { status: 7, stdout: 'a\n', stderr: '' });
});

test('a program that is missing, or is none, is no result', async (t) => {
  assert.equal(await run('/nonexistent/program', []), undefined);
  const path = join(await temporaryFolder(t), 'text');
  writeFileSync(path, 'x', { mode: 0o644 });
  assert.equal(await run(path, []), undefined);
});

test('a program ends at its deadline, and has no status then', async () => {
  const begun = performance.now();
  const result = await sh('echo begun; exec sleep 30', { timeoutMs: 1000 });
  assert.ok(performance.now() - begun < 20_000);
  assert.equal(result?.status, undefined);
  assert.equal(result?.stdout, 'begun\n');
});

test('a program has ten seconds, or what its caller gives it', async (t) => {
  const given: unknown[] = [];
  const execFile = (_: string, __: string[], options: { timeout: number }, done: Done) => {
    given.push(options.timeout);
    done(null, 'out', 'err');
  };
  type Done = (error: null, stdout: string, stderr: string) => void;
  patched(t, childProcess, { execFile: execFile as unknown as typeof childProcess.execFile });
  assert.deepEqual(await run('x', []), { status: 0, stdout: 'out', stderr: 'err' });
  await run('x', [], { timeoutMs: 60_000 });
  assert.deepEqual(given, [10_000, 60_000]);
});

test('output is kept up to 4 MiB', async () => {
  const most = await sh(`head -c ${4 << 20} /dev/zero`);
  assert.deepEqual([most?.status, most?.stdout.length], [0, 4 << 20]);
  const more = await sh(`head -c ${(4 << 20) + 1} /dev/zero`);
  assert.equal(more?.status, undefined);
});

test('a program with our streams has our descriptor as its third', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'out');
  const fd = openSync(path, 'w');
  t.after(() => closeSync(fd));
  const { signal } = new AbortController();
  assert.equal(await runThrough('sh', ['-c', 'echo here >&3'], fd, signal), 0);
  assert.equal(readFileSync(path, 'utf8'), 'here\n');
});

test('standard output of a program can be collected, up to 1 MiB', async () => {
  const { signal } = new AbortController();
  let text = '';
  const printed = (part: string) => {
    text += part;
  };
  assert.equal(await runThrough('sh', ['-c', 'echo one; exit 3'], undefined, signal, printed), 3);
  assert.equal(text, 'one\n');
  text = '';
  const more = `head -c ${maxPrinted + 9} /dev/zero`;
  assert.equal(await runThrough('sh', ['-c', more], undefined, signal, printed), 0);
  assert.equal(text.length, maxPrinted);
});

test('the status of a program, and 128 and a signal', async () => {
  const { signal } = new AbortController();
  assert.equal(await runThrough('sh', ['-c', 'exit 9'], undefined, signal), 9);
  assert.equal(await runThrough('sh', ['-c', 'kill -KILL $$'], undefined, signal), 137);
  assert.deepEqual(getEventListeners(signal, 'abort'), [], 'nothing waits for the signal');
});

test('an abort is SIGTERM for the program', async () => {
  const controller = new AbortController();
  const ended = runThrough('sleep', ['30'], undefined, controller.signal);
  setTimeout(() => controller.abort(), 50);
  assert.equal(await ended, 143);
});

test('a program that is missing is E_HOST with its name', async () => {
  const { signal } = new AbortController();
  await assert.rejects(runThrough('/nonexistent/podman', [], undefined, signal), {
    code: 'E_HOST',
    message: /^\/nonexistent\/podman: cannot be started/,
    hint: 'install /nonexistent/podman',
  });
  assert.deepEqual(getEventListeners(signal, 'abort'), []);
});

test('a process is known by pid and start time, and its ancestors are', async () => {
  const stat = readFileSync('/proc/self/stat', 'latin1').split(') ')[1]?.split(' ') ?? [];
  assert.equal(startTime(process.pid), stat[19]);
  assert.equal(processName(process.pid), `${process.pid}-${stat[19]}`);
  assert.equal(processNameIfAny(process.pid), processName(process.pid));
  const names = lineage(process.pid);
  assert.equal(names[0], processName(process.pid));
  assert.equal(names[1], processName(process.ppid));
  const pids = names.map((name) => Number(name.split('-')[0]));
  assert.ok(pids.every((pid) => pid > 0));
  assert.equal(new Set(pids).size, pids.length);
});

test('all processes are listed as they are, without those that end meanwhile', async (t) => {
  const child = childProcess.spawn('sleep', ['30'], { stdio: 'ignore' });
  t.after(() => child.kill('SIGKILL'));
  const pid = child.pid as number;
  const listed = (wanted: number) => processStats().filter((one) => one.pid === wanted);
  const own = { pid: process.pid, start: startTime(process.pid), parent: process.ppid };
  assert.deepEqual(listed(process.pid), [{ ...own, state: 'R' }]);
  child.kill('SIGSTOP');
  while (listed(pid)[0]?.state !== 'T') await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(listed(pid), [{ pid, start: startTime(pid), parent: process.pid, state: 'T' }]);
  assert.notEqual(startTime(pid), '');
  const { readdirSync } = fs;
  const names = [...readdirSync('/proc'), `${2 ** 22 + 1}`];
  patched(t, fs, { readdirSync: (() => names) as unknown as typeof readdirSync });
  assert.deepEqual(listed(2 ** 22 + 1), []);
  assert.equal(listed(pid).length, 1);
});

test('a process that ends while it is looked at is gone; any other error is one', (t) => {
  const { readFileSync: real } = fs;
  let code = 'ESRCH';
  const failing = (path: string, ...rest: ['latin1']) => {
    if (path !== `/proc/${process.pid}/stat`) return real(path, ...rest);
    throw code === '' ? 'no error' : Object.assign(new Error(code), { code });
  };
  patched(t, fs, { readFileSync: failing as unknown as typeof real });
  for (code of ['ESRCH', 'ENOENT']) {
    assert.equal(processNameIfAny(process.pid), undefined);
    assert.deepEqual(lineage(process.pid), []);
    assert.ok(!processStats().some(({ pid }) => pid === process.pid));
    assert.throws(() => startTime(process.pid), { code });
  }
  for (code of ['EACCES', '']) {
    const is = (error: unknown) =>
      error === 'no error' || (error as { code: string }).code === code;
    assert.throws(() => processNameIfAny(process.pid), is);
    assert.throws(() => lineage(process.pid), is);
    assert.throws(() => processStats(), is);
  }
});

test('a process that has gone has no name', async () => {
  // Above the largest pid that Linux gives.
  assert.equal(processNameIfAny(2 ** 22 + 1), undefined);
  assert.throws(() => startTime(2 ** 22 + 1), { code: 'ENOENT' });
  assert.deepEqual(lineage(2 ** 22 + 1), []);
});

test('the start time of a command whose name has parentheses and spaces', async (t) => {
  const path = join(await temporaryFolder(t), 'a) b (c');
  writeFileSync(path, '#!/bin/sh\ncat /proc/$$/stat; echo $$ $PPID\n', { mode: 0o755 });
  const ran = await run(path, []);
  const [stat = '', ids = ''] = ran?.stdout.trim().split('\n') ?? [];
  assert.match(stat, /\(a\) b \(c\)/);
  assert.equal(ids.split(' ')[1], `${process.pid}`);
});
