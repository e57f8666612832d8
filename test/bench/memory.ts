/** Peak memory of the session: independent of the size of the contents. */

import { trip } from './trip.js';

export async function memory(): Promise<Record<string, unknown>> {
  const rows: { gib: number; dump_bytes: number; restore_bytes: number }[] = [];
  const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  process.stdout.write('peak memory of the session, Node.js and staging included\n');
  for (const gib of [1, 3]) {
    const { dump, restore, right } = await trip([
      '--vram-mib',
      String(gib * 1024),
      '--step-ms',
      '0',
    ]);
    if (!right) throw new Error(`${gib} GiB came back wrong`);
    const row = {
      gib,
      dump_bytes: dump.max_rss_bytes ?? Number.NaN,
      restore_bytes: restore.max_rss_bytes ?? Number.NaN,
    };
    rows.push(row);
    process.stdout.write(
      `  ${gib} GiB of contents: dump ${mib(row.dump_bytes)}, restore ${mib(row.restore_bytes)}\n`,
    );
  }
  return { rows };
}
