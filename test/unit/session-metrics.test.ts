/** The file of counters: what sessions add to it, who else may have written it. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parseConfig } from '../../src/config.js';
import { Lock } from '../../src/os/lock.js';
import { Counters } from '../../src/session/metrics/counters.js';
import { type EndedSession, recordSession } from '../../src/session/metrics/record.js';
import { temporaryFolder } from './paths.js';

const saved: EndedSession = {
  operation: 'checkpoint',
  outcome: 'sealed',
  success: true,
  code: '',
  contentBytes: 2 ** 40,
  timingsUs: { prepare: 100_000, gate: 200_000, total: 300_000 },
};
const failed: EndedSession = {
  operation: 'restore',
  outcome: 'failed',
  success: false,
  code: 'E_VRAM',
  contentBytes: 0,
  timingsUs: { prepare: 5, total: 5 },
};

async function stage(t: TestContext) {
  const folder = await temporaryFolder(t);
  const warnings: [fields: Record<string, unknown>, text: string][] = [];
  const log = { warn: (...line: [Record<string, unknown>, string]) => void warnings.push(line) };
  const file = join(folder, 'kfd.prom');
  const options = { lock: join(folder, 'lock'), now: 1_800_000_000_999 };
  const record = (session: EndedSession, path = file) =>
    recordSession(path, session, log as never, options);
  return { folder, file, warnings, record, lock: options.lock };
}

test('sessions add to the file, in the format of the textfile collector', async (t) => {
  const { file, record, warnings } = await stage(t);
  await record(saved);
  await record(saved);
  await record(failed);
  const text = readFileSync(file, 'utf8');
  assert.deepEqual(
    text.split('\n').filter((line) => !line.startsWith('# HELP')),
    [
      '# TYPE kfd_checkpoint_sessions_total counter',
      'kfd_checkpoint_sessions_total{operation="checkpoint",outcome="sealed"} 2',
      'kfd_checkpoint_sessions_total{operation="restore",outcome="failed"} 1',
      '# TYPE kfd_checkpoint_failures_total counter',
      'kfd_checkpoint_failures_total{operation="restore",code="E_VRAM"} 1',
      '# TYPE kfd_checkpoint_content_bytes_total counter',
      'kfd_checkpoint_content_bytes_total{operation="checkpoint"} 2199023255552',
      'kfd_checkpoint_content_bytes_total{operation="restore"} 0',
      '# TYPE kfd_checkpoint_phase_seconds_total counter',
      'kfd_checkpoint_phase_seconds_total{operation="checkpoint",phase="gate"} 0.4',
      'kfd_checkpoint_phase_seconds_total{operation="checkpoint",phase="prepare"} 0.2',
      'kfd_checkpoint_phase_seconds_total{operation="restore",phase="prepare"} 0.000005',
      '# TYPE kfd_checkpoint_last_session_timestamp_seconds gauge',
      'kfd_checkpoint_last_session_timestamp_seconds{operation="checkpoint",success="true"} 1800000000',
      'kfd_checkpoint_last_session_timestamp_seconds{operation="restore",success="false"} 1800000000',
      '',
    ],
  );
  assert.equal(statSync(file).mode & 0o777, 0o644, 'the collector is not root');
  assert.equal(String(Counters.parse(text)), text);
  assert.deepEqual(warnings, []);
});

test('sums of microseconds are exact, and so is the smallest value', () => {
  const counters = new Counters();
  const labels = { operation: 'restore', phase: 'gate' };
  for (let n = 0; n < 10; n++) {
    counters.addMicroseconds('kfd_checkpoint_phase_seconds_total', labels, 100_000);
  }
  assert.match(String(counters), /phase="gate"\} 1\n/);
  const small = new Counters();
  small.addMicroseconds('kfd_checkpoint_phase_seconds_total', labels, 0.7);
  assert.match(String(small), /\} 0\.000001\n|\} 1e-6\n/);
  assert.equal(String(Counters.parse(String(small))), String(small));
});

test('a file that is damaged, or of somebody else, begins anew, and the log says so', async (t) => {
  const { file, record, warnings } = await stage(t);
  const line = 'kfd_checkpoint_content_bytes_total{operation="restore"}';
  for (const text of [
    'node_load1 0.5\n',
    `${line} 5`, // cut
    `${line} -5\n`,
    `${line} NaN\n`,
    `${line} 1e999\n`,
    `${line} 5 1800000000\n`,
    'kfd_checkpoint_content_bytes_total{operation="a\\"b"} 5\n',
    'kfd_checkpoint_sessions_total 5\n',
    '__proto__{} 5\n',
    'constructor{} 5\n',
    Array.from({ length: 1001 }, (_, n) => `${line.replace('restore', `r${n}`)} 5\n`).join(''),
    'x'.repeat(300 << 10),
  ]) {
    warnings.length = 0;
    await writeFile(file, text);
    await record(failed);
    assert.equal(warnings[0]?.[1], 'counters begin anew', text.slice(0, 60));
    const written = readFileSync(file, 'utf8');
    assert.match(written, /^kfd_checkpoint_content_bytes_total\{operation="restore"\} 0$/m);
    assert.doesNotMatch(written, /node_load|r1"/);
  }
  warnings.length = 0;
  await writeFile(file, `# a comment\n${line} 5\n`);
  await record({ ...failed, contentBytes: 2 });
  assert.match(readFileSync(file, 'utf8'), /\{operation="restore"\} 7\n/);
  assert.deepEqual(warnings, []);
});

test('sessions that end at the same time are all counted', async (t) => {
  const { file, record } = await stage(t);
  await Promise.all(Array.from({ length: 5 }, () => record(failed)));
  assert.match(readFileSync(file, 'utf8'), /outcome="failed"\} 5\n/);
});

test('what cannot be written is told, and is no failure of the session', async (t) => {
  const { folder, record, warnings } = await stage(t);
  await record(saved, join(folder, 'none/kfd.prom'));
  const [fields, text] = warnings[0] ?? [];
  assert.equal(text, 'the session is not counted');
  assert.match(String(fields?.['err']), /none: no such folder/);
  assert.ok(
    !existsSync(join(folder, 'none')),
    'nobody could read it: the umask of a session is 077',
  );
});

test('the lock is given back, also after a failure', async (t) => {
  const { folder, file, record, warnings, lock } = await stage(t);
  await record(saved);
  await writeFile(join(folder, '.kfd.prom.tmp'), '');
  const taken = await Lock.tryTake(lock);
  assert.ok(taken !== undefined);
  await taken.release();
  await record(saved, `${folder}/x\0.prom`);
  assert.equal(warnings.length, 1);
  assert.ok((await Lock.tryTake(lock)) !== undefined);
  assert.ok(existsSync(file));
});

test('words of labels are plain, whatever they come from', () => {
  const counters = new Counters();
  counters.add('kfd_checkpoint_failures_total', { operation: 'a"}\n', code: '' }, 1);
  assert.match(String(counters), /\{operation="a___",code=""\} 1\n$/);
});

test('the setting names a file that the collector reads', () => {
  const { config } = parseConfig('{"metrics_file":"/var/lib/prometheus/node-exporter/kfd.prom"}');
  assert.equal(config.metrics_file, '/var/lib/prometheus/node-exporter/kfd.prom');
  for (const text of ['{}', '{"metrics_file":""}'])
    assert.equal(parseConfig(text).config.metrics_file, '');
  for (const path of ['kfd.prom', '/var/lib/kfd.txt', '/var/lib/.prom', '/x/.prom/y', 7]) {
    const text = JSON.stringify({ metrics_file: path });
    assert.throws(() => parseConfig(text), { code: 'E_CONFIG' }, text);
  }
});
