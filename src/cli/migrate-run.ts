/** Moves a container, or goes on with a migration whose process was killed. */

import { randomBytes } from 'node:crypto';
import { asKfdError, KfdError } from '../errors.js';
import type { SshConnection } from '../migrate/connection.js';
import type { SourceRecord } from '../migrate/journal.js';
import { Link } from '../migrate/link.js';
import { Lock } from '../migrate/lock.js';
import { placesBelow } from '../migrate/places.js';
import { defaultTerms } from '../migrate/protocol/lease.js';
import type { SourceState } from '../migrate/protocol/source.js';
import type { Moving } from '../migrate/question/compare.js';
import { sourceHost } from '../migrate/source-host.js';
import { type Moments, SourceSide } from '../migrate/source-side.js';
import type { HostSetting } from '../migrate/target-host.js';
import { temporaryRoot } from '../os/temporary.js';
import type { CommandContext } from './context.js';
import type { MigrateOptions } from './migrate-question.js';
import { progressOf } from './progress.js';

type How = MigrateOptions & Pick<HostSetting, 'self'>;

/** A container that has moved. */
export interface Move {
  readonly record: SourceRecord;
  readonly moments: Moments;
  readonly bytes: number | undefined;
}

/** Throws the reason why it does not move. The container runs here then, unless the error says something else. */
export async function moveContainer(
  moving: Moving,
  host: string,
  connection: SshConnection,
  how: How,
  context: CommandContext,
): Promise<Move> {
  const { container, store } = moving.question;
  const record: SourceRecord = {
    schema_version: 1,
    id: randomBytes(16).toString('hex'),
    side: 'source',
    phase: 'asking',
    container,
    container_id: moving.containerId,
    host,
    lease_ms: defaultTerms.leaseMs,
  };
  return locked(record, how, async () => {
    connection.messages.send({
      type: 'begin',
      id: record.id,
      lease_ms: record.lease_ms,
      container,
      container_id: record.container_id,
      ...(store !== undefined && { store }),
      ...(how.gpuMap !== undefined && { gpu_map: how.gpuMap }),
      ...(how.ignoreMismatch !== undefined && { ignore_mismatch: how.ignoreMismatch }),
    });
    await connection.expect('begun');
    return run(record, how, context, (side, link) => {
      link.use(connection);
      side.post({ type: 'accepted' });
    });
  });
}

/** The same for a migration that a killed process has begun. */
export async function continueMigration(
  record: SourceRecord,
  how: How,
  context: CommandContext,
): Promise<Move> {
  if (how.quiet !== true)
    context.err(`${record.container}: a migration to ${record.host} goes on\n`);
  return locked(record, how, () => run(record, how, context, (side) => side.restart()));
}

async function locked(record: SourceRecord, { root }: How, work: () => Promise<Move>) {
  const lock = await Lock.tryTake(placesBelow(root).lock(record.container_id));
  if (lock === undefined) {
    throw new KfdError('E_HOST', `${record.container}: another migration of it is at work`, {
      hint: 'wait for its end',
    });
  }
  try {
    return await work();
  } finally {
    await lock.remove();
  }
}

async function run(
  record: SourceRecord,
  how: How,
  context: CommandContext,
  begin: (side: SourceSide, link: Link) => Promise<void> | void,
): Promise<Move> {
  const { container, host = '' } = record;
  const progress = progressOf(context);
  const say = (text: string) => {
    if (how.quiet !== true) context.err(`${container}: ${text}\n`);
  };
  let bytes: number | undefined;
  const link = new Link(host, {
    heard: (message) => side.hear(message),
    lost: (error) => side.post({ type: 'lost', error }),
    tried: (error) => say(`cannot reach ${host} yet: ${error.message}`),
  });
  const over = new AbortController();
  const setting = {
    root: how.root,
    run: context.run,
    self: how.self,
    store: temporaryRoot('/var/tmp'),
    signal: over.signal,
    onProgress: (done: number, total: number) => {
      bytes = total;
      if (how.quiet !== true) progress.update('sending', done, total);
    },
  };
  const onPhase = (phase: SourceState['phase']) => {
    const text = phaseTexts[phase];
    if (text !== undefined) say(text);
  };
  const side: SourceSide = new SourceSide(record, sourceHost(record, link, setting), onPhase);
  const cancel = () => {
    const tooLate = side.cancel(new KfdError('E_CANCELLED', 'migrate: interrupted'));
    if (tooLate === undefined) over.abort();
    else say(`too late to stop: ${tooLate}; it is waited for the end`);
  };
  context.signal.addEventListener('abort', cancel, { once: true });
  try {
    await begin(side, link);
    const state = await side.ended;
    if (state.phase === 'done') return { record, moments: side.moments, bytes };
    throw notMoved(record, state);
  } finally {
    context.signal.removeEventListener('abort', cancel);
    progress.end();
    await link.close();
  }
}

const phaseTexts: Partial<Record<SourceState['phase'], string>> = {
  stopping: 'making the checkpoint',
  sending: 'is stopped; sending it',
  granted: 'arrived; being started there',
  given: 'runs there',
  returning: 'being brought back here',
};

function notMoved(record: SourceRecord, { phase, failure }: SourceState): KfdError {
  const { container, host } = record;
  const reason = failure ?? asKfdError(new Error('its process was killed'), 'migrate');
  const details = { phase, migration: record.id };
  if (phase === 'stranded') {
    return new KfdError(
      reason.code,
      `${container}: did not move, and cannot be brought back: ${reason.message}`,
      { hint: `run "kfd-checkpoint migrate ${container} ${host}" again`, cause: reason, details },
    );
  }
  const { hint } = reason;
  const message = `${container}: did not move, and runs here: ${reason.message}`;
  const rest = { cause: reason, details };
  return new KfdError(reason.code, message, hint === undefined ? rest : { ...rest, hint });
}
