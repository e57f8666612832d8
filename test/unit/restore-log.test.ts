/** What the log of a restore session says, which is all that an operator has of it later. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageType } from '../../src/session/plugin/wire.js';
import { logLines, restoreTask, type Started, started } from './played-restore.js';

/** Lets the session succeed. Returns the last line of its log. */
async function restored(all: Started): Promise<Record<string, unknown>> {
  assert.equal((await all.stage('post-restore')).type, messageType.ok);
  await all.stage('post-resume');
  assert.equal((await all.finish()).outcome, 'restored');
  const [line] = await logLines(all, 'session ended');
  assert.ok(line);
  return line;
}

const timingsOf = (line: Record<string, unknown>) => line['timings_us'] as Record<string, number>;

test('the last line has each phase, what was uploaded at the gate, and the memory in bytes', async (t) => {
  const all = await started(t, { config: { parallel: false } });
  await restoreTask(t, all);
  const line = await restored(all);
  const timings = timingsOf(line);
  const phases = ['prepare', 'wait_for_tasks', 'overlap', 'gate', 'resume', 'finish'];
  assert.deepEqual(Object.keys(timings), [...phases, 'total', 'upload', 'upload_overlapped']);
  assert.ok((timings['upload'] as number) > 0);
  assert.equal(timings['upload_overlapped'], 0, 'all of it was at the gate');
  assert.ok((line['max_rss_bytes'] as number) > 2 ** 23, 'Node.js takes more than 8 MiB');
  assert.deepEqual(await logLines(all, 'ended tasks CRIU left behind'), []);
});

test('an image without a GPU has no contents', async (t) => {
  const line = await restored(await started(t, { withoutGpu: true }));
  assert.deepEqual([line['content_bytes'], line['processes']], [0, 0]);
});

test('differences that the operator ignores are in the log, and no others', async (t) => {
  const ignored = await started(t, {
    bend: ({ manifest }) => Object.assign(manifest.host, { driver: { version: '6.16.6' } }),
    config: { ignore_mismatch: ['driver'] },
  });
  const [line] = await logLines(ignored, 'restores in spite of differences');
  const mismatches = line?.['ignored'] as { difference: string }[] | undefined;
  assert.equal(mismatches?.[0]?.difference, 'driver');
  const equal = await started(t);
  assert.deepEqual(await logLines(equal, 'restores in spite of differences'), []);
});

test('RESTORE that finds a queue taken is told with who may have it', async (t) => {
  const busy = 'KFD RESTORE: Device or resource busy';
  const failed = async (all: Started) => {
    await all.send({ type: messageType.restoreFailed, args: [0, 0], body: busy });
    return all.stage('post-restore');
  };
  const queue = 'sys/class/kfd/kfd/proc/4711/queues/0';
  const host = { [`${queue}/type`]: '1\n', [`${queue}/gpuid`]: '51966\n' };
  const all = await started(t, { host });
  const { text } = await failed(all);
  assert.match(text, /^E_GPU_IO: KFD RESTORE: .* busy \(.*pid 4711 has 1 SDMA queue/);
  assert.equal((await logLines(all, 'SDMA queues of others')).length, 1);
  const other = await failed(await started(t, { withoutGpu: true }));
  assert.match(other.text, /^E_GPU_IO: KFD RESTORE: Device or resource busy; session log/);
});
