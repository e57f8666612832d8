/** `--with-image`: podman here, ssh, podman there. Stand-ins for podman and ssh fail and hang. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { imageCommands, sendImage } from '../../src/cli/migrate-image.js';
import { temporaryFolder } from './paths.js';

/** Puts both scripts into PATH. `ssh` runs as whoever gets what podman prints. */
async function programs(t: TestContext, podman: string, ssh: string): Promise<string> {
  const bin = await temporaryFolder(t);
  for (const [name, body] of Object.entries({ podman, ssh })) {
    await writeFile(join(bin, name), `#!/bin/sh\ncd ${bin}\n${body}\n`);
    await chmod(join(bin, name), 0o755);
  }
  const before = process.env['PATH'];
  process.env['PATH'] = `${bin}:${before}`;
  t.after(() => {
    process.env['PATH'] = before;
  });
  return bin;
}

const never = new AbortController().signal;
const send = (signal = never) =>
  sendImage('job:1', 'host-b', signal, imageCommands({ engine: 'podman', image: 'job:1' }));
/** Says who it is, and never ends by itself. */
const hangs = (name: string) => `echo $$ >${name}.tmp; mv ${name}.tmp ${name}; exec sleep 1000`;

async function pidOf(path: string): Promise<number> {
  for (let left = 1200; !existsSync(path); left -= 1) {
    assert.ok(left > 0, path);
    await delay(50);
  }
  return Number(readFileSync(path, 'utf8'));
}

const isThere = (pid: number) => existsSync(`/proc/${pid}`);

test('an image arrives as podman has saved it', async (t) => {
  const bin = await programs(t, 'echo "$*"; echo bytes', 'cat >got; echo "$*" >words');
  await send();
  assert.equal(readFileSync(join(bin, 'got'), 'utf8'), 'image save job:1\nbytes\n');
  assert.match(readFileSync(join(bin, 'words'), 'utf8'), /-- host-b podman image load --quiet\n$/);
});

test('an ssh that fails is the reason, and podman does not go on', async (t) => {
  const waits = 'while [ ! -e podman-pid ]; do sleep 0.05; done';
  const ssh = `${waits}; echo "ssh: no route" >&2; exit 255`;
  const bin = await programs(t, hangs('podman-pid'), ssh);
  const failed = send();
  await assert.rejects(failed, {
    code: 'E_HOST',
    message: 'image job:1: was not sent to host-b: ssh: no route',
    hint: 'send it by hand: podman image save job:1 | ssh host-b podman image load --quiet',
  });
  assert.equal(isThere(await pidOf(join(bin, 'podman-pid'))), false);
});

test('a podman that cannot save is the reason, though the other end was content', async (t) => {
  const podman = 'echo part; echo "Error: job:1: image not known" >&2; exit 125';
  await programs(t, podman, 'cat >/dev/null');
  await assert.rejects(send(), {
    message: /was not sent to host-b: Error: job:1: image not known$/,
  });
});

test('an ssh that hangs ends with a cancel, and so does podman', async (t) => {
  const bin = await programs(t, hangs('podman-pid'), hangs('ssh-pid'));
  const cancel = new AbortController();
  const sending = send(cancel.signal);
  const failed = assert.rejects(sending, { code: 'E_CANCELLED' });
  const pids = [await pidOf(join(bin, 'ssh-pid')), await pidOf(join(bin, 'podman-pid'))];
  cancel.abort();
  await failed;
  assert.deepEqual(pids.filter(isThere), []);
});
