/** The program as a process, with signals. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { installedHost, prefix } from './able-host.js';
import { archive, plainCheckpoint } from './archive-builder.js';
import { FakeSession } from './control-session.js';
import { repository, temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const program = join(repository, 'dist/src/cli/main.js');

/** Starts a verb, sends `signal` when `isReady`, and gives the exit status and how long it took to end. */
async function interrupted(
  args: readonly string[],
  isReady: () => boolean,
  { signal = 'SIGINT' as NodeJS.Signals, folder = '' } = {},
) {
  const env = { ...process.env, PATH: `${folder}:${process.env['PATH']}` };
  const child = spawn(process.execPath, [program, ...args], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = once(child, 'exit') as Promise<[number | null]>;
  for (let i = 0; !isReady(); i += 1) {
    assert.ok(i < 1000 && child.exitCode === null, `not ready: ${stderr}`);
    await delay(10);
  }
  const begun = performance.now();
  child.kill(signal);
  const kill = setTimeout(() => child.kill('SIGKILL'), 15_000);
  const [status] = await ended;
  clearTimeout(kill);
  return { status, stderr, seconds: (performance.now() - begun) / 1000 };
}

/** A session that is stopped: it accepts connections and says nothing. */
async function silentSession(t: TestContext) {
  const root = await temporaryFolder(t);
  const folder = FakeSession.directory(root, 4711);
  await mkdir(folder, { recursive: true });
  let isAsked = false;
  const server = createServer((socket) => {
    isAsked = true;
    socket.on('error', () => undefined);
    t.after(() => socket.destroy());
  });
  server.listen(join(folder, 'control.sock'));
  await once(server, 'listening');
  t.after(() => server.close());
  return { root, isAsked: () => isAsked };
}

/** A program that tells when it runs: `$started` in the script. */
async function fakeProgram(t: TestContext, name: string, script: string) {
  const folder = await temporaryFolder(t);
  const started = join(folder, 'started');
  const text = `#!/bin/sh
started='${started}'
${script}
`;
  await writeFile(join(folder, name), text, { mode: 0o755 });
  return { folder, isStarted: () => existsSync(started) };
}

for (const verb of [['sessions'], ['cancel', '4711'], ['watch', '4711'], ['watch']]) {
  test(`a signal ends "${verb.join(' ')}" at once, though the session says nothing`, async (t) => {
    const { root, isAsked } = await silentSession(t);
    const { status, stderr, seconds } = await interrupted([...verb, '--root', root], isAsked);
    assert.deepEqual([status, seconds < 5], [130, true], `${stderr}, ${seconds} s`);
  });
}

test('a signal ends the check of a host whose programs hang', async (t) => {
  const { folder, isStarted } = await fakeProgram(t, 'criu', 'touch $started; exec sleep 8');
  const root = await temporaryFolder(t);
  const args = ['check', '--root', root];
  const { status, seconds } = await interrupted(args, isStarted, { folder, signal: 'SIGTERM' });
  assert.deepEqual([status, seconds < 5], [143, true], `${seconds} s`);
});

test('a signal ends configure before it writes anything more', async (t) => {
  const { folder, isStarted } = await fakeProgram(
    t,
    'containerd',
    'touch $started; sleep 1; echo containerd v2.1.9',
  );
  const root = await installedHost(t);
  const args = ['configure', 'containerd', '--root', root, '--prefix', prefix];
  const { status, stderr, seconds } = await interrupted(args, isStarted, { folder });
  assert.deepEqual([status, seconds < 5], [130, true], `${seconds} s`);
  assert.match(stderr, /^Error: configure: interrupted before it had finished\n/);
  assert.ok(!existsSync(join(root, 'etc/containerd')));
});

test('a verb that succeeds in spite of a signal has succeeded', async (t) => {
  const script = "trap '' TERM; touch $started; sleep 1";
  const { folder, isStarted } = await fakeProgram(t, 'podman', script);
  const path = await archive(t, plainCheckpoint());
  const root = await bentHost(t, 'no-kfd', {});
  const { status } = await interrupted(['restore', '--root', root, path], isStarted, { folder });
  assert.equal(status, 0);
});

test('a verb that fails for a signal has the status of the signal', async (t) => {
  const { folder, isStarted } = await fakeProgram(t, 'podman', 'touch $started; exec sleep 8');
  const path = await archive(t, plainCheckpoint());
  const root = await bentHost(t, 'no-kfd', {});
  const { status } = await interrupted(['restore', '--root', root, path], isStarted, { folder });
  assert.equal(status, 130);
});
