/** The estimated downtime: from a measured connection and the last move, before anything stops. */

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { assertShort } from '../../src/cli/migrate-estimate.js';
import { estimateOf, lastMove, writeLastMove } from '../../src/migrate/estimate.js';
import { placesBelow } from '../../src/migrate/places.js';
import { countBytes, measureRate } from '../../src/migrate/probe.js';
import { cli, errorIn } from './cli-context.js';
import { standInSsh } from './migrate-hosts.js';
import { migrate, stateOf, twoHosts } from './migrate-two-places.js';
import { temporaryFolder } from './paths.js';

test('contents are sent during the checkpoint, and the archive after it', () => {
  const load = { memory: 100e6, contents: 400e6 };
  const first = estimateOf(load, 100e6, undefined);
  // Guessed: 5 s for the checkpoint, 5 s for check and restore.
  assert.deepEqual(first, { rate: 100e6, sendMs: 5000, downtimeMs: 11_000, isMeasured: false });
  assert.equal(estimateOf(load, 50e6, undefined).downtimeMs, 8000 + 2000 + 5000);
  const last = { schema_version: 2, bytes: 250e6, checkpoint_ms: 3000, others_ms: 1000 } as const;
  assert.equal(estimateOf(load, 100e6, last).downtimeMs, 6000 + 1000 + 2000);
  assert.equal(estimateOf(load, 50e6, last).downtimeMs, 8000 + 2000 + 2000);
  // Less is not faster: programs must start in any case.
  assert.equal(estimateOf({ memory: 0, contents: 0 }, 100e6, last).downtimeMs, 4000);
});

test('the last move is kept, and a damaged note is none', async (t) => {
  const places = placesBelow(await temporaryFolder(t));
  assert.equal(await lastMove(places), undefined);
  const move = { bytes: 7, checkpoint_ms: 2, others_ms: 3 };
  await writeLastMove(move, places);
  assert.deepEqual(await lastMove(places), { schema_version: 2, ...move });
  const path = join(dirname(places.journal), 'last-migration.json');
  await mkdir(dirname(path), { recursive: true });
  for (const text of ['', '{}', '{"schema_version":1,"bytes":9,"others_ms":1}']) {
    await writeFile(path, text);
    assert.equal(await lastMove(places), undefined, text);
  }
});

test('the other end counts what has come', async () => {
  const input = new PassThrough();
  const said: string[] = [];
  const counted = countBytes(input, (text) => said.push(text));
  input.write(Buffer.alloc(70_000));
  input.end('x');
  await counted;
  assert.deepEqual(said, ['ready\n', '70001\n']);
});

test('a rate is what has arrived in its time; without an answer there is none', async (t) => {
  const never = new AbortController().signal;
  await standInSsh(t, 'echo ready; wc -c');
  assert.ok((await measureRate('host-b', never)) > 1);
  await standInSsh(t, 'echo "ssh: no route" >&2; exit 255');
  await assert.rejects(measureRate('host-b', never), { code: 'E_HOST', message: /no route$/ });
  const stop = new AbortController();
  await standInSsh(t, 'exec sleep 1000');
  const measuring = measureRate('host-b', stop.signal);
  stop.abort();
  await assert.rejects(measuring, { code: 'E_CANCELLED' });
});

test('what would stand still for too long is not stopped', async (t) => {
  const hosts = await twoHosts(t);
  const asked = await migrate(t, hosts, '--dry-run').ended;
  assert.equal(asked.status, 0, asked.stderr);
  const { estimate } = JSON.parse(asked.stdout) as { estimate: Record<string, unknown> };
  assert.deepEqual(Object.keys(estimate), [
    'rate_bytes_per_s',
    'send_ms',
    'downtime_ms',
    'measured',
  ]);
  assert.equal(estimate['measured'], false);
  const { status, stderr } = await migrate(t, hosts, '--max-downtime', '0.5').ended;
  assert.equal(status, 6, stderr);
  assert.match(errorIn(stderr).message, /would not move to host-b: downtime: about \d+\.\d s, of /);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['running', 'none']);
});

test('right before the stop, what changed between two rounds decides', async (t) => {
  const root = await temporaryFolder(t);
  const { places, move } = { places: placesBelow(root), move: { bytes: 1e6 } };
  await mkdir(dirname(places.journal), { recursive: true });
  await writeLastMove({ ...move, checkpoint_ms: 1000, others_ms: 500 }, places);
  const load = { memory: 0, contents: 20e6 };
  // 20 s for what changed, which takes longer than the checkpoint; the rest is 20 times that of the last move.
  const judged = (maxDowntime?: number, rate?: number) =>
    assertShort(load, {
      root,
      ...(maxDowntime && { maxDowntime }),
      ...(rate !== undefined && { rate }),
    });
  await judged(30, 1e6);
  await judged(undefined, 1e6);
  await judged(1, undefined);
  await assert.rejects(judged(29, 1e6), {
    code: 'E_TIMEOUT',
    message: 'downtime: about 30.0 s, of which 20.0 s for sending, 29.0 s are allowed',
  });
});

test('two rounds ahead do not count as contents before they are made', async (t) => {
  const hosts = await twoHosts(t);
  const { status, stderr } = await migrate(t, hosts, '--precopy', '2', '--max-downtime', '99')
    .ended;
  assert.equal(status, 0, stderr);
  assert.match(stderr, /^job: would stand still for about \d/m);
});

test('a limit that is no number of seconds is refused', async () => {
  for (const text of ['0', '-1', '1e9', 'x', '']) {
    const { code } = await cli(['migrate', '--max-downtime', text, 'job', 'host-b']);
    assert.equal(code, 2, text);
  }
  assert.equal((await cli(['migrate', '--lease', '4', 'job', 'host-b'])).code, 2);
});
