/** A restore session with a plugin, a launcher and a CRIU that are played. The CPU uploads into files. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Config } from '../../src/config.js';
import { native } from '../../src/native.js';
import { messageType } from '../../src/session/plugin/wire.js';
import { RestoreSession } from '../../src/session/restore/session.js';
import { kfdVersion } from './dumped.js';
import { content, imageFiles, kfdBos, type Parts, renderBo, soundParts } from './forged-image.js';
import { lives } from './lives.js';
import { temporaryFolder } from './paths.js';
import { playedSession } from './played-session.js';
import { received } from './received.js';
import { bentHost } from './sysfs-tree.js';

/** BO indices with contents, and their bytes. */
export const contents: readonly (readonly [index: number, bytes: Buffer])[] = [
  [0, Buffer.concat([content(1), content(2, 4096)])],
  [1, Buffer.alloc(kfdBos[1].size)],
  [2, content(4)],
  [4, content(3, renderBo.size)],
];

/** A shell in the place of CRIU, with one task. */
async function playedCriu(t: TestContext) {
  const shell = spawn('sh', ['-c', 'sleep 60 & echo $!; while :; do sleep 1; done'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.after(() => shell.kill('SIGKILL'));
  const [text] = (await once(shell.stdout, 'data')) as [Buffer];
  const task = Number(text.toString());
  t.after(() => lives(task) && process.kill(task, 'SIGKILL'));
  const die = async () => {
    shell.kill('SIGKILL');
    await once(shell, 'exit');
  };
  return { criuPid: shell.pid as number, task, die };
}

interface Play {
  /** Changes the image before it is written. */
  readonly bend?: (parts: Parts) => void;
  readonly config?: Partial<Config>;
  /** Nothing in the image is ours. */
  readonly withoutGpu?: boolean;
  /** Changed files of the host. */
  readonly host?: Readonly<Record<string, string>>;
}

/** A session of a sound image that has begun, and its CRIU. */
export async function started(t: TestContext, play: Play = {}) {
  const folder = await temporaryFolder(t);
  const image = join(folder, 'image');
  await mkdir(image);
  const parts = soundParts();
  play.bend?.(parts);
  for (const [name, bytes] of Object.entries(play.withoutGpu ? {} : imageFiles(parts))) {
    await writeFile(join(image, name), bytes);
  }
  const criu = await playedCriu(t);
  const request = { operation: 'restore', criuPid: criu.criuPid, image } as const;
  const played = await playedSession(t, request, { engine: 'cpu', ...play.config });
  const root = await bentHost(t, 'two-gpus', play.host ?? {});
  const session = new RestoreSession(played.context, { root, kfdVersion });
  await session.start();
  const paths = contents.map(([index]) => join(folder, `bo-${index}`));
  for (const [i, [, bytes]] of contents.entries()) {
    await writeFile(paths[i] as string, Buffer.alloc(bytes.length, 0xff));
  }
  const resumed: number[] = [];
  t.mock.method(native(), 'kfdResume', (pid: number) => void resumed.push(pid));
  const ask = (type: number, args: readonly number[] = [], body: string | Buffer = '') =>
    played.ask({ type, args, body, pid: criu.task });
  return {
    ...played,
    ...criu,
    session,
    parts,
    paths,
    resumed,
    ask,
    stage: (name: string) => ask(messageType.stage, [], name),
    finish: async () => {
      await criu.die();
      return session.finish();
    },
  };
}

export type Started = Awaited<ReturnType<typeof started>>;

/** The lines of the session's log with this message. */
export async function logLines({ logFile }: Started, message: string) {
  const lines = (await readFile(logFile, 'utf8')).trim().split('\n').filter(Boolean);
  const all = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return all.filter(({ msg }) => msg === message);
}

/** The task gets its files, calls RESTORE, and sends its buffers. */
export async function restoreTask(t: TestContext, all: Started): Promise<void> {
  const body = Buffer.alloc(4 * contents.length);
  contents.forEach(([index], i) => void body.writeUInt32LE(index, 4 * i));
  const fds = await received(t, all.paths);
  await all.send({ type: messageType.restoreBuffers, args: [0], body, fds, pid: all.task });
  const { type, text } = await all.ask(messageType.restored, [0, 1]);
  assert.deepEqual([type, text], [messageType.ok, 'log']);
}

/** A session at whose gate something is wrong: the answer, and how it ends. */
export async function refusedAtGate(all: Started): Promise<string> {
  const { type, text } = await all.stage('post-restore');
  assert.equal(type, messageType.error, text);
  assert.deepEqual(all.resumed, []);
  const { outcome, success, code, message } = await all.finish();
  assert.deepEqual([outcome, success], ['failed', false]);
  assert.ok(text.startsWith(`${code}: ${message}`), `${text}; ${code}: ${message}`);
  assert.ok(!lives(all.task), 'a task stays that nobody resumes');
  return `${code}: ${message}`;
}
