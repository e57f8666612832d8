/** CRIU's own error in the answer to a failure: which log, which line of it, and where the log is kept. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { explain, firstError, firstWrittenSince } from '../../shim/task/criu-log.js';
import { bytesField } from '../../src/protobuf.js';
import { decodeResponse } from '../../src/ttrpc/envelope.js';
import { temporaryFolder } from './paths.js';
import { checkpointInto, options, task } from './task-process.js';

test('explain: the first error of the newest log is added, and the log is kept', async (t) => {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'work'));
  const since = Date.now();
  const log = join(folder, 'work/restore.log');
  await writeFile(
    log,
    '(00.1) Error (criu/files.c:1): first\n' +
      '(00.2)      7: Error (kfd-checkpoint): E_VRAM: why\n' +
      '(00.3) Error (criu/cr-restore.c:2): last\n',
  );
  assert.equal(await firstWrittenSince([join(folder, 'none'), folder, log], since), log);
  // Also into a folder of logs that is there already.
  const [logs, marks] = [join(folder, 'new/logs'), [] as string[]];
  for (const operation of ['restore', 'dump'] as const) {
    await explain('failed', operation, log, logs);
    marks.push(...(await readdir(logs)).map((name) => name.replace(/^[\dTZ-]+-criu|\d+/g, '')));
  }
  assert.deepEqual(marks.sort(), ['-dump-.log', '-restore-.log', '-restore-.log']);
  const whole = await explain('failed', 'restore', log, logs);
  const match = /^failed; CRIU: Error \(kfd-checkpoint\): E_VRAM: why; CRIU's log: (.*)$/.exec(
    whole,
  );
  assert.deepEqual(readFileSync(match?.[1] ?? ''), readFileSync(log));
  assert.equal(dirname(match?.[1] ?? ''), logs);
  assert.equal(await explain('failed', 'restore', undefined, folder), 'failed');
  await writeFile(log, 'nothing of interest\n');
  assert.match(await explain('failed', 'dump', log, logs), /^failed; CRIU: no error in its log; /);

  const second = Math.floor(since / 1000) - 60;
  await utimes(log, second, second);
  assert.equal(await firstWrittenSince([log], since), undefined, 'a log of an earlier failure');
  // Times of a file system may be whole seconds.
  assert.equal(await firstWrittenSince([log], second * 1000 + 1000), log);
  assert.equal(await firstWrittenSince([log], second * 1000 + 1001), undefined);
});

test('explain: a log of a restore is where its options say, else in the bundle', async (t) => {
  const folder = await temporaryFolder(t);
  const work = join(folder, 'elsewhere');
  const wanted = options(10, 'containerd.runc.v1.Options', bytesField(11, work));
  const reasons: (string | undefined)[] = [];
  await mkdir(join(folder, 'work'));
  await writeFile(join(folder, 'work/restore.log'), 'Error (criu/a.c:1): of the bundle\n');
  await writeFile(join(folder, 'criu-dump.log'), 'Error (criu/a.c:1): of a checkpoint\n');
  for (const name of ['dump.log', 'restore.log']) {
    await writeFile(join(folder, name), 'Error (criu/a.c:1): of the folder of the process\n');
  }
  const explained = async (operation: string, request: Buffer) => {
    const args = ['explain', operation, folder, String(Date.now() - 60_000), 'failed'];
    const { status, output, errors } = await task(args, request, {}, folder);
    assert.equal(status, 0, errors);
    const [, reason, log = ''] =
      /; CRIU: Error \(criu\/a\.c:1\): (.*); CRIU's log: (.*)$/.exec(
        decodeResponse(output).message,
      ) ?? [];
    assert.match(
      log,
      operation === 'dump' ? /-criu-dump-|dump\.log$/ : /-criu-restore-|restore\.log$/,
    );
    if (!log.startsWith(folder)) await rm(log);
    reasons.push(reason);
  };
  const one = bytesField(1, 'one');
  await explained('restore', one);
  await explained('restore', Buffer.concat([one, wanted]));
  await mkdir(work);
  await writeFile(join(work, 'restore.log'), 'Error (criu/a.c:1): of its options\n');
  await explained('restore', Buffer.concat([one, wanted]));
  await explained('dump', one);
  assert.deepEqual(reasons, [
    'of the bundle',
    'of the bundle',
    'of its options',
    'of a checkpoint',
  ]);
});

test('explain: looks where the caller wanted the log', async (t) => {
  const folder = await temporaryFolder(t);
  const work = join(folder, 'elsewhere');
  await mkdir(work);
  const since = String(Date.now());
  await writeFile(join(work, 'dump.log'), 'Error (criu/tty.c:1): why\n');
  const { status, output, errors } = await task(
    ['explain', 'dump', folder, since, 'failed'],
    checkpointInto(work),
  );
  assert.equal(status, 0, errors);
  const { message } = decodeResponse(output);
  const match = /^failed; CRIU: Error \(criu\/tty\.c:1\): why; CRIU's log: (\/.*)$/.exec(message);
  assert.ok(match?.[1], message);
  await rm(match[1]); // its copy in the host's folder of logs, or itself where that cannot be written
});

test('of CRIU’s errors the first counts, and none is longer than a message can bear', () => {
  assert.equal(firstError('(00.1) Warn\n(00.2) Error (a): x\nError (b): y\n'), 'Error (a): x');
  assert.equal(firstError('all is well\n'), undefined);
  assert.equal(firstError(`Error (a): ${'x'.repeat(5000)}`)?.length, 1000);
});
