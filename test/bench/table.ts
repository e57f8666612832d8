/** Checkpoint and restore of typical containers under crun, uncompressed, once each. */

import { trip } from './trip.js';

const rows = [
  { name: '32 MiB and a pending barrier', worker: ['--vram-mib', '32', '--pending-barrier'] },
  { name: '1 GiB in one BO', worker: ['--vram-mib', '1024', '--step-ms', '0'] },
  { name: '1,000 BOs of 64 KiB', worker: ['--bos', '1000', '--bo-kib', '64'] },
] as const;

const seconds = (us: number | undefined) => ((us ?? 0) / 1e6).toFixed(1);

export async function table(): Promise<Record<string, unknown>> {
  const results: Record<string, unknown>[] = [];
  for (const { name, worker } of rows) {
    const { dump, restore, ...result } = await trip(worker);
    process.stdout.write(
      `  ${name}: checkpoint ${result.checkpoint_s.toFixed(1)} s, restore ${result.restore_s.toFixed(1)} s, ` +
        `of which upload ${seconds(restore.timings_us?.['upload'])} s ` +
        `(${seconds(restore.timings_us?.['upload_overlapped'])} s hidden), data ${result.right ? 'right' : 'WRONG'}\n`,
    );
    results.push({
      name,
      ...result,
      content_bytes: restore.content_bytes,
      dump_us: dump.timings_us,
      restore_us: restore.timings_us,
    });
  }
  return { results };
}
