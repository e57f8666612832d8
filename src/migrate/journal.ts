/**
 * What a side of a migration has decided, on its disk: the one thing that outlives its process. A record is replaced
 * as a whole and synced before anybody hears of the decision.
 */

import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { namePattern } from '../containerd/ctr.js';
import { isMissing, KfdError } from '../errors.js';
import { readTextIfAny, replaceFile, syncFolder } from '../os/files.js';
import type { SourcePhase } from './protocol/source.js';
import type { TargetPhase } from './protocol/target.js';
import { fitting } from './wire/messages.js';

/** Below /var: it must outlive a boot. */
export const journalFolder = '/var/lib/kfd-checkpoint/migrations';

const moment = v.object({
  bootId: v.pipe(v.string(), v.maxLength(64)),
  ms: v.pipe(v.number(), v.finite(), v.minValue(0)),
});

const sourcePhases = [
  'asking',
  'stopping',
  'sending',
  'granted',
  'given',
  'returning',
  'stranded',
  'returned',
  'done',
] as const satisfies readonly SourcePhase[];

const targetPhases = [
  'receiving',
  'ready',
  'starting',
  'resumed',
  'doubt',
  'owned',
  'ended',
] as const satisfies readonly TargetPhase[];

const common = {
  schema_version: v.literal(1),
  id: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/)),
  /** Name of the container, and the other host as it was named: the source knows it. */
  container: v.pipe(v.string(), v.maxLength(255)),
  container_id: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
  host: v.exactOptional(v.pipe(v.string(), v.maxLength(255))),
  /** Missing: podman. */
  engine: v.exactOptional(v.literal('containerd')),
  /** Of containerd. */
  namespace: v.exactOptional(v.pipe(v.string(), v.regex(namePattern))),
  lease_ms: v.pipe(v.number(), v.integer(), v.minValue(1)),
  /** When the lease is over, by this side's clock. Missing: there is none yet. */
  deadline: v.exactOptional(moment),
};

const schema = v.variant('side', [
  v.object({ ...common, side: v.literal('source'), phase: v.picklist(sourcePhases) }),
  v.object({
    ...common,
    side: v.literal('target'),
    phase: v.picklist(targetPhases),
    /** Folder of the contents that have arrived. */
    contents: v.pipe(v.string(), v.maxLength(4095)),
  }),
]);

export type JournalRecord = v.InferOutput<typeof schema>;
export type SourceRecord = Extract<JournalRecord, { readonly side: 'source' }>;
export type TargetRecord = Extract<JournalRecord, { readonly side: 'target' }>;

const nameOf = ({ id, side }: Pick<JournalRecord, 'id' | 'side'>) => `${id}.${side}.json`;

/** Throws Node's error. The record before is untouched then. */
export async function writeRecord(record: JournalRecord, folder = journalFolder): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await replaceFile(join(folder, nameOf(record)), `${JSON.stringify(record)}\n`, 0o600);
}

/** undefined: nothing was recorded. Throws E_IO for a damaged record: nothing may be concluded from it. */
export async function readRecord<Side extends JournalRecord['side']>(
  id: string,
  side: Side,
  folder = journalFolder,
): Promise<Extract<JournalRecord, { readonly side: Side }> | undefined> {
  const path = join(folder, nameOf({ id, side }));
  const text = await readTextIfAny(path);
  if (text === undefined) return undefined;
  try {
    const record = fitting(JSON.parse(text), schema, path);
    if (record.id === id && record.side === side)
      return record as Extract<JournalRecord, { readonly side: Side }>;
    throw new Error('it is the record of another migration');
  } catch (cause) {
    throw new KfdError('E_IO', `${path}: is damaged`, {
      cause,
      hint: 'look on both hosts where the container is, and remove the file then',
    });
  }
}

/** Ids and sides of all records; damaged ones, too. Throws Node's error. */
export async function listRecords(
  folder = journalFolder,
): Promise<Pick<JournalRecord, 'id' | 'side'>[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  return names.flatMap((name) => {
    const [, id, side] = /^([0-9a-f]{32})\.(source|target)\.json$/.exec(name) ?? [];
    return id === undefined ? [] : [{ id, side: side as JournalRecord['side'] }];
  });
}

/** Of a migration that has ended. Throws Node's error. */
export async function removeRecord(
  record: Pick<JournalRecord, 'id' | 'side'>,
  folder = journalFolder,
): Promise<void> {
  await rm(join(folder, nameOf(record)), { force: true });
  await syncFolder(folder).catch((error: unknown) => {
    // Nothing was ever recorded there.
    if (!isMissing(error)) throw error;
  });
}
