/** What a session tells of itself, and how it takes a cancel. */

import assert from 'node:assert/strict';
import { mkdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { KfdError } from '../../src/errors.js';
import { createLogger } from '../../src/log.js';
import { type TransferFile, Transfers } from '../../src/session/contents/transfers.js';
import type { SessionContext } from '../../src/session/context.js';
import { ControlledSession } from '../../src/session/control/report.js';
import { type Cancellable, tooLate } from '../../src/session/control/types.js';
import { Phases } from '../../src/session/phases.js';
import { sealed } from './control-session.js';
import { FakeJob, plenty } from './fake-job.js';
import { temporaryFolder } from './paths.js';

const files: readonly TransferFile[] = [
  { name: 'a', process: 0, renderNode: '/dev/dri/renderD128', bytes: 100 },
  { name: 'b', process: 0, renderNode: '/dev/dri/renderD129', bytes: 50 },
  { name: 'c', process: 1, renderNode: '/dev/dri/renderD128', bytes: 10 },
];

test('transfers tell what is done, as far as it is expected, and are asked only when somebody looks', async () => {
  const transfers = new Transfers(plenty);
  assert.deepEqual(transfers.progress(), []);
  let asked = 0;
  transfers.expect(() => {
    asked += 1;
    return files;
  });
  const done = () => transfers.progress().map((file) => file.done);
  const first = new FakeJob();
  const running = transfers.run(0, 'a', () => first);
  const later = transfers.run(0, 'c', () => new FakeJob());
  later.catch(() => undefined);
  assert.equal(asked, 0);
  assert.deepEqual(done(), [0, 0, 0]);
  await new Promise(setImmediate);
  first.bytes = 70;
  assert.deepEqual(done(), [70, 0, 0]);
  // Less than expected was moved, but it is all there is.
  first.end();
  assert.equal((await running).bytes, 70);
  assert.deepEqual(done(), [100, 0, 0]);
  assert.equal(asked, 1);
  transfers.cancel();
  await assert.rejects(later, { code: 'E_CANCELLED' });
});

test('a cancel ends what runs and what waits', async () => {
  const transfers = new Transfers(plenty);
  const job = new FakeJob();
  let begun = false;
  const running = transfers.run(0, 'a', () => job);
  const waiting = transfers.run(0, 'c', () => {
    begun = true;
    return new FakeJob();
  });
  await new Promise(setImmediate);
  transfers.cancel();
  await assert.rejects(running, { code: 'E_CANCELLED', message: 'a: cancelled' });
  await assert.rejects(waiting, { code: 'E_CANCELLED' });
  await assert.rejects(
    transfers.run(1, 'b', () => job),
    { code: 'E_CANCELLED' },
  );
  assert.equal(begun, false);
});

const id = '0123456789abcdef'.repeat(4);

class FakeOperation implements Cancellable {
  processes: { pid?: number }[] = [{ pid: process.pid }, {}];
  failure: KfdError | undefined;

  cancel(reason: KfdError): void {
    if (this.failure !== undefined) throw tooLate('the checkpoint has failed');
    this.failure = reason;
  }
}

async function controlled(t: TestContext, ...path: string[]) {
  const folder = await temporaryFolder(t);
  const logPath = join(folder, 'log');
  const image = join(folder, ...path, 'checkpoint');
  await mkdir(image, { recursive: true });
  await symlink(image, join(folder, 'image'));
  const context = {
    request: { operation: 'restore', criuPid: 7, imageDirectory: '/proc/7/fd/3' },
    phases: new Phases('prepare'),
    transfers: new Transfers(plenty),
    log: createLogger({ file: logPath }),
    logPath,
    image: join(folder, 'image'),
  } as unknown as SessionContext;
  const session = new FakeOperation();
  return { context, session, logPath, view: new ControlledSession(context, session) };
}

test('a status has bytes by file, by GPU and in all', async (t) => {
  const { context, view, logPath } = await controlled(t, id, 'userdata');
  context.transfers.expect(() => files);
  const job = new FakeJob();
  const running = context.transfers.run(1, 'b', () => job);
  await new Promise(setImmediate);
  job.bytes = 20;
  context.phases.enter('overlap');
  assert.equal((await controlled(t, id)).view.status().transfer_us, 0);
  const {
    elapsed_us: elapsed,
    phase_us: spent,
    transfer_us: moving,
    files: each,
    ...status
  } = view.status();
  assert.ok(moving > 0 && moving <= elapsed, `${moving} of ${elapsed} us`);
  assert.deepEqual(status, {
    operation: 'OPERATION_RESTORE',
    criu_pid: 7,
    container_id: id,
    phase: 'overlap',
    bytes_done: 20,
    bytes_total: 160,
    processes: 2,
    gpus: [
      { render_node: '/dev/dri/renderD128', bytes_done: 0, bytes_total: 110 },
      { render_node: '/dev/dri/renderD129', bytes_done: 20, bytes_total: 50 },
    ],
    log_path: logPath,
    cancelled: false,
    result: null,
  });
  assert.deepEqual(
    each.map((file) => [file.name, file.process, file.bytes_done, file.bytes_total]),
    [
      ['a', 0, 0, 100],
      ['b', 0, 20, 50],
      ['c', 1, 0, 10],
    ],
  );
  assert.ok(spent >= 0 && elapsed > spent, `${spent} of ${elapsed} us`);
  job.end();
  await running;
});

test('a container whose id nothing tells has none', async (t) => {
  const { view, session } = await controlled(t, 'plain', `${id}0`);
  session.processes = [{ pid: 2 ** 30 }];
  assert.equal(view.status().container_id, '');
});

test('of nested containers the inner one is meant', async (t) => {
  const inner = 'f'.repeat(64);
  const { view } = await controlled(t, id, inner, 'userdata');
  assert.equal(view.status().container_id, inner);
});

test('a cancel makes the session fail for its reason, once, and is logged', async (t) => {
  const { view, session, logPath } = await controlled(t);
  view.cancel(`host\u001b[2J goes down ${'.'.repeat(2000)}`);
  assert.equal(session.failure?.code, 'E_CANCELLED');
  const text = session.failure?.message ?? '';
  assert.ok(text.startsWith('session: cancelled: host?[2J goes down ..'), text);
  assert.ok(text.length < 1100, `${text.length} characters`);
  assert.equal(view.status().cancelled, true);
  assert.match(await readFile(logPath, 'utf8'), /"reason":"host\?\[2J goes down/);
  assert.throws(() => view.cancel('again'), { code: 'E_TOO_LATE' });
});

test('without a reason none is given; after the end nothing can be cancelled', async (t) => {
  const { view, session } = await controlled(t);
  view.cancel(' ');
  assert.equal(session.failure?.message, 'session: cancelled');
  const { view: ended, session: untouched } = await controlled(t);
  ended.end(sealed);
  assert.deepEqual(ended.status().result, sealed);
  assert.throws(() => ended.cancel('late'), { code: 'E_TOO_LATE' });
  assert.equal(untouched.failure, undefined);
  assert.equal(ended.status().cancelled, false);
});

test('the current phase has all the time that was spent in it', () => {
  const phases = new Phases('a');
  phases.enter('b');
  phases.enter('a');
  const { name, us, totalUs } = phases.current;
  assert.equal(name, 'a');
  assert.ok(us <= totalUs);
  const { a = 0 } = phases.timings();
  assert.ok(us <= a + 1, `${us} of ${a} us`);
  assert.ok(phases.current.us >= us, 'asking for timings begins no new phase');
});
