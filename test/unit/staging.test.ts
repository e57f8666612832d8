import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { TransferJob, TransferResult } from '../../src/native.js';
import {
  HostStaging,
  nextLookMs,
  type StagingRing,
  stagingRing,
} from '../../src/session/contents/staging.js';
import { Transfers } from '../../src/session/contents/transfers.js';
import { repository, temporaryFolder } from './paths.js';

const alone = { waiting: () => undefined, cancelled: () => false };
const config = { staging_mib: 64, staging_total_mib: 128 };

interface Line {
  readonly text: string;
  readonly facts: object;
}

async function host(t: TestContext) {
  const file = join(await temporaryFolder(t), 'staging');
  const lines: Line[] = [];
  const log = {
    info: (facts: object, text: string) => {
      lines.push({ facts, text });
    },
  };
  const budget = (bent = config) => new HostStaging(bent, log as never, file);
  return { file, lines, budget };
}

/** Another session, which holds `wanted` pieces of `total`, or waits for them when there are none. */
async function otherSession(
  t: TestContext,
  file: string,
  total: number,
  wanted: number,
): Promise<ChildProcess> {
  const native = join(repository, 'dist/src/native.js');
  const program = `
    const { native } = await import(${JSON.stringify(native)});
    const file = ${JSON.stringify(file)};
    const request = { file, total: ${total}, wanted: ${wanted}, transfers: 1, session: process.pid };
    const claim = new (native().StagingClaim)(request);
    process.stdout.write(String(claim.poll()));
    setInterval(() => claim.poll(), 5);
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  await once(child.stdout as NodeJS.ReadableStream, 'data');
  return child;
}

async function killed(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  await once(child, 'exit');
}

test('one session alone has all it is configured for', async (t) => {
  const { lines, budget } = await host(t);
  const { ring, giveBack } = await budget().claim('a', 1, alone);
  assert.deepEqual(ring, stagingRing({ staging_mib: 64 }));
  giveBack();
  const odd = await budget({ staging_mib: 9, staging_total_mib: 1024 }).claim('a', 1, alone);
  assert.deepEqual(odd.ring, stagingRing({ staging_mib: 9 }));
  odd.giveBack();
  const scarce = await budget({ staging_mib: 64, staging_total_mib: 8 }).claim('a', 1, alone);
  assert.deepEqual(scarce.ring, stagingRing({ staging_mib: 8 }));
  scarce.giveBack();
  assert.deepEqual(lines, []);
});

test('several sessions have shares, and what a killed one had is there for others', async (t) => {
  const { file, budget } = await host(t);
  const other = await otherSession(t, file, 16, 1);
  const half = await budget({ staging_mib: 128, staging_total_mib: 128 }).claim('a', 1, alone);
  assert.deepEqual(half.ring, stagingRing({ staging_mib: 64 }));
  half.giveBack();
  // Of this session's part each of its GPUs has its own.
  const quarter = await budget({ staging_mib: 128, staging_total_mib: 128 }).claim('a', 2, alone);
  assert.deepEqual(quarter.ring, stagingRing({ staging_mib: 32 }));
  quarter.giveBack();
  await killed(other);
  const whole = await budget({ staging_mib: 128, staging_total_mib: 128 }).claim('a', 1, alone);
  assert.deepEqual(whole.ring, stagingRing({ staging_mib: 128 }));
  whole.giveBack();
});

class FakeJob implements TransferJob {
  readonly done = Promise.resolve({ bytes: 100 } as TransferResult);
  progress() {
    return 0;
  }
  cancel() {}
}

test('a session that waits says so, is shown so, and continues when another one is killed', async (t) => {
  const { file, lines, budget } = await host(t);
  const other = await otherSession(t, file, 16, 16);
  const transfers = new Transfers(budget());
  transfers.expect(() => [
    { name: 'a', process: 0, renderNode: '/dev/dri/renderD128', bytes: 100 },
    { name: 'b', process: 0, renderNode: '/dev/dri/renderD129', bytes: 100 },
  ]);
  const rings: StagingRing[] = [];
  const running = transfers.run(0, 'a', (ring) => {
    rings.push(ring);
    return new FakeJob();
  });
  const waits = () => transfers.progress().map(({ waiting }) => waiting);
  while (lines.length === 0) await delay(10);
  assert.deepEqual(waits(), [true, false]);
  assert.equal(rings.length, 0);
  assert.deepEqual(lines, [
    { text: 'waiting for staging memory', facts: { file: 'a', staging_total_mib: 128 } },
  ]);
  await killed(other);
  assert.equal((await running).bytes, 100);
  assert.deepEqual(rings, [stagingRing({ staging_mib: 64 })]);
  assert.deepEqual(waits(), [false, false]);
  assert.equal(lines[1]?.text, 'staging memory is there');
  // It was given back.
  const next = await budget().claim('c', 1, alone);
  assert.deepEqual([next.ring], rings);
  next.giveBack();
});

test('those that wait are served in turn, and one that is cancelled gives up its place', async (t) => {
  const { file, budget } = await host(t);
  const holder = await otherSession(t, file, 16, 16);
  const before = await otherSession(t, file, 16, 16);
  const transfers = new Transfers(budget());
  const waiting = transfers.run(0, 'a', () => assert.fail('began'));
  const later = budget({ staging_mib: 128, staging_total_mib: 128 }).claim('b', 1, alone);
  await delay(50);
  transfers.cancel();
  await assert.rejects(waiting, { code: 'E_CANCELLED' });
  await killed(holder);
  // Half is for the other process, which came before, and half for this one.
  const { ring, giveBack } = await later;
  assert.deepEqual(ring, stagingRing({ staging_mib: 64 }));
  giveBack();
  await killed(before);
});

test('whoever waits for long looks less often, and never later than a quarter of a second', () => {
  assert.deepEqual(
    [0, 300, 1000, 4000, 5000, 600_000].map(nextLookMs),
    [20, 20, 50, 200, 250, 250],
  );
});
