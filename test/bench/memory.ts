/** Peak memory of the session: independent of the size of the contents. */

import { rmSync } from 'node:fs';
import { archivePath } from '../e2e/support/archive.js';
import { Container } from '../e2e/support/container.js';
import { lastSession } from '../e2e/support/product.js';
import { seconds } from './timing.js';

function peak(operation: 'dump' | 'restore'): number {
  const end = lastSession(operation).findLast((line) => line['max_rss_bytes'] !== undefined);
  return Number(end?.['max_rss_bytes']);
}

export async function memory(): Promise<Record<string, unknown>> {
  const rows: { gib: number; dump_bytes: number; restore_bytes: number }[] = [];
  for (const gib of [1, 3]) {
    const archive = archivePath('memory.tar');
    const worker = ['--vram-mib', String(gib * 1024), '--step-ms', '0'];
    const job = await Container.start({ engine: 'crun', worker });
    seconds(
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
    seconds('podman', 'container', 'restore', '--import', archive);
    rows.push({ gib, dump_bytes: peak('dump'), restore_bytes: peak('restore') });
    job.remove();
    rmSync(archive);
  }
  const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  const lines = rows.map(
    (row) =>
      `  ${row.gib} GiB of contents: dump ${mib(row.dump_bytes)}, restore ${mib(row.restore_bytes)}`,
  );
  process.stdout.write(
    `peak memory of the session, Node.js and staging included\n${lines.join('\n')}\n`,
  );
  return { rows };
}
