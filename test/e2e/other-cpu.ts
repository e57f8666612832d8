/** An archive of a CPU with more features: refused with their names, and restored where the operator wants it. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Manifest } from '../../src/manifest/schema.js';
import { sealOf } from '../../src/manifest/seal.js';
import { archivePath, rewriteArchive } from './support/archive.js';
import { attempt } from './support/command.js';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { assertNothingLeft, scenario } from './support/suite.js';

/** As if the source's CPU had one feature more. */
function recordOtherCpu(image: string): void {
  const path = join(image, 'kfd-manifest.json');
  const document = JSON.parse(readFileSync(path, 'utf8')) as Manifest & { seal: string };
  const { seal: _, ...manifest } = document;
  const { cpu } = manifest.host;
  assert.ok(cpu !== undefined && cpu.flags.length > 10, 'the checkpoint records the CPU');
  cpu.flags.push('no_such_flag');
  writeFileSync(path, JSON.stringify({ ...manifest, seal: sealOf(manifest) }));
}

scenario('to a CPU that lacks a feature: refused, and restored on purpose', async (lane) => {
  const { engine, meet } = lane;
  const archive = archivePath(engine, 'other-cpu.tar');
  const job = await Container.start({ engine, worker: ['--vram-mib', '2', '--pending-barrier'] });
  const saved = await job.checkpoint('--compress', 'none', '--export', archive);
  assert.equal(saved.status, 0, saved.stderr);
  await job.remove();
  await rewriteArchive(archive, recordOtherCpu);

  const refused = await job.restore('--import', archive);
  assert.notEqual(refused.status, 0);
  const reason = /E_CPU_MISMATCH: cpu: .* here lacks no_such_flag; recorded on /;
  await assertExplained(job, 'restore', refused, reason);
  await job.remove();
  await meet(assertNothingLeft);

  const ignore = ['--ignore-mismatch', 'cpu'];
  const restored = await attempt('kfd-checkpoint', 'restore', '--quiet', ...ignore, archive);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(restored.stderr, /^ignored \(cpu\): cpu: .* lacks no_such_flag/m);
  assert.match(await job.control.ask('verify'), /^verified bytes=2097152 barrier=completed/);
});
