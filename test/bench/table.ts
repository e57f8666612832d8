/** Checkpoint and restore of typical containers under crun, uncompressed, once each. */

import { rmSync } from 'node:fs';
import { archivePath } from '../e2e/support/archive.js';
import { Container } from '../e2e/support/container.js';
import { seconds } from './timing.js';

const rows = [
  { name: '32 MiB and a pending barrier', worker: ['--vram-mib', '32', '--pending-barrier'] },
  { name: '1 GiB in one BO', worker: ['--vram-mib', '1024', '--step-ms', '0'] },
  { name: '1,000 BOs of 64 KiB', worker: ['--bos', '1000', '--bo-kib', '64'] },
] as const;

export async function table(): Promise<Record<string, unknown>> {
  const results: Record<string, unknown>[] = [];
  for (const { name, worker } of rows) {
    const archive = archivePath('table.tar');
    const job = await Container.start({ engine: 'crun', worker });
    const checkpoint = seconds(
      'podman',
      'container',
      'checkpoint',
      '--compress',
      'none',
      '--export',
      archive,
      job.name,
    );
    job.remove();
    const restore = seconds('podman', 'container', 'restore', '--import', archive);
    const answer = await job.control.ask('verify', 600);
    job.remove();
    rmSync(archive);
    const right = answer.startsWith('verified ');
    process.stdout.write(
      `  ${name}: checkpoint ${checkpoint.toFixed(1)} s, restore ${restore.toFixed(1)} s, data ${right ? 'right' : `WRONG: ${answer}`}\n`,
    );
    results.push({ name, checkpoint_s: checkpoint, restore_s: restore, right });
  }
  return { results };
}
