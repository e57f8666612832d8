/** Contents that compression makes smaller, and two sessions at a time over the staging memory of one. */

import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Container } from './support/container.js';
import { setLinkRate } from './support/gpu.js';
import { configure } from './support/product.js';
import { type Operation, sessionLog } from './support/session.js';
import { scenario } from './support/suite.js';

const mib = 2 ** 20;
const contents = 64 * mib;

/** One piece of staging memory for the whole host: a session has it until its transfer is over. */
const oneAtATime = { staging_mib: 8, staging_total_mib: 8 };
/** So slow that both sessions have come to their contents before one is through, MB/s. */
const slowMbps = 200;

/** Of the sessions of both engines, ms. */
const waits: number[] = [];

/** How long the session's transfers waited for the memory of others, ms; 0: not worth a word. */
function waitedMs(job: Container, operation: Operation): number {
  const lines = sessionLog(job, operation);
  assert.notEqual(lines.length, 0, `${operation}: no log`);
  return lines
    .filter(({ msg }) => msg === 'staging memory is there')
    .reduce((sum, line) => sum + Number(line['waited_ms']), 0);
}

function storedBytes({ bundle }: Container): number {
  const image = join(bundle, 'checkpoint');
  return readdirSync(image)
    .filter((name) => name.startsWith('amdgpu-pages-'))
    .reduce((sum, name) => sum + statSync(join(image, name)).size, 0);
}

scenario('contents by zstd and by LZ4, sessions in turn over one piece of memory', async (lane) => {
  const { meet } = lane;
  const worker = ['--vram-mib', String(contents / mib), '--compressible', '--pending-barrier'];
  const job = await Container.start({ engine: lane.engine, worker });
  const own: number[] = [];
  try {
    for (const compress of ['zstd', 'lz4']) {
      await meet(() => {
        configure({ ...oneAtATime, compress });
        setLinkRate(slowMbps);
      });
      const saved = await job.checkpoint('--keep');
      assert.equal(saved.status, 0, saved.stderr);
      assert.ok(storedBytes(job) * 3 < contents, `${compress}: ${storedBytes(job)} bytes`);
      own.push(waitedMs(job, 'dump'));
      await meet(() => setLinkRate(slowMbps));
      const restored = await job.restore('--keep', job.name);
      assert.equal(restored.status, 0, restored.stderr);
      own.push(waitedMs(job, 'restore'));
      await meet(() => setLinkRate(0));
      assert.match(await job.control.ask('verify'), /^verified bytes=67108864 barrier=completed/);
    }
  } finally {
    await meet(() => {
      setLinkRate(0);
      configure({});
    });
  }
  console.log(`# ${lane.engine}: waited for memory: ${own.join(', ')} ms`);
  waits.push(...own);
  await meet(() => {
    assert.ok(
      waits.some((ms) => ms > 0),
      'no session had to wait for the other',
    );
  });
});
