/** Migrations of this host's containers that were begun and have not ended. */

import { KfdError } from '../errors.js';
import { usualNamespace } from '../migrate/containerd-engine.js';
import { listRecords, readRecord, removeRecord, type SourceRecord } from '../migrate/journal.js';
import { placesBelow } from '../migrate/places.js';
import { againCommand } from './migrate-again.js';
import type { MigrateOptions } from './migrate-question.js';

/** `container`: name or id. Throws E_USAGE where it moves to another host than `host`, E_IO for damaged records. */
export async function unfinishedMigration(
  container: string,
  host: string,
  { root, engine = 'podman', namespace }: Pick<MigrateOptions, 'root' | 'engine' | 'namespace'>,
): Promise<SourceRecord | undefined> {
  const { journal } = placesBelow(root);
  for (const { id, side } of await listRecords(journal)) {
    if (side !== 'source') continue;
    const record = await readRecord(id, 'source', journal);
    if (record === undefined || !isNamed(record, container)) continue;
    const { engine: own = 'podman', namespace: home = usualNamespace } = record;
    if (own !== engine || (own === 'containerd' && home !== (namespace ?? usualNamespace)))
      continue;
    if (record.phase === 'returned') {
      // Its process was killed when all was done: the container runs here.
      await removeRecord(record, journal);
      continue;
    }
    if (record.host === host) return record;
    throw new KfdError('E_USAGE', `${container}: a migration to ${record.host} has not ended`, {
      hint: `run "${againCommand(record)}": it goes on`,
    });
  }
  return undefined;
}

function isNamed(record: SourceRecord, container: string): boolean {
  const isId = /^[0-9a-f]{12,64}$/.test(container) && record.container_id.startsWith(container);
  return isId || record.container === container;
}
