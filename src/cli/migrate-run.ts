/** Moves a container, or goes on with a migration whose process was killed. */

import { join } from 'node:path';
import { stockShim } from '../containerd/shim-call.js';
import { freezeTold } from '../criu/freeze-moment.js';
import { runFolder } from '../criu/state-folder.js';
import { asKfdError, KfdError, printable } from '../errors.js';
import { momentNow } from '../migrate/clock.js';
import type { SshConnection } from '../migrate/connection.js';
import { usualNamespace } from '../migrate/containerd-engine.js';
import type { SourceRecord } from '../migrate/journal.js';
import { Link } from '../migrate/link.js';
import { defaultTerms } from '../migrate/protocol/lease.js';
import type { SourceState } from '../migrate/protocol/source.js';
import type { Moving } from '../migrate/question/compare.js';
import { promisedBytes } from '../migrate/question/room.js';
import type { HostSetting } from '../migrate/setting.js';
import { type SourceSetting, sourceHost } from '../migrate/source-host.js';
import { type Moments, SourceSide } from '../migrate/source-side.js';
import { leftUs, type Meter } from '../migrate/status.js';
import { stage } from '../stages.js';
import { cancelCheckpoint } from './cancel-checkpoint.js';
import { withRequest } from './command-request.js';
import type { CommandContext } from './context.js';
import { duration, rate } from './format.js';
import { againCommand } from './migrate-again.js';
import { assertShort } from './migrate-estimate.js';
import { Play } from './migrate-play.js';
import { archiveFolder, type MigrateOptions } from './migrate-question.js';
import { withParent } from './parent-indexes.js';
import { type Progress, progressOf } from './progress.js';

type How = MigrateOptions &
  Pick<HostSetting, 'self'> & {
    /** Of the connection, bytes per second, where it was measured. */
    readonly rate?: number;
  };

/** A target that has no reason against it. `keep`: the signal does not end the connection any more. */
interface Connected {
  readonly host: string;
  readonly connection: SshConnection;
  readonly keep: () => void;
}

/** What a checkpoint of another process does not need. */
type Ahead = Pick<Moving, 'contentBytes' | 'memoryBytes' | 'sendsMemory'>;

/** A container that has moved. */
export interface Move {
  readonly record: SourceRecord;
  readonly moments: Moments;
  /** 0: another process has sent them. */
  readonly bytes: number;
}

/** Throws the reason why it does not move. The container runs here then, unless the error says something else. */
export async function moveContainer(
  play: Play,
  moving: Moving,
  { host, connection, keep }: Connected,
  how: How,
  context: CommandContext,
): Promise<Move> {
  const { container, store, engine, namespace = usualNamespace } = moving.question;
  const ofContainerd = engine === 'containerd' ? ({ engine, namespace } as const) : {};
  const record: SourceRecord = {
    schema_version: 1,
    id: play.id,
    side: 'source',
    phase: 'asking',
    container,
    container_id: moving.containerId,
    host,
    ...ofContainerd,
    lease_ms: how.lease === undefined ? defaultTerms.leaseMs : how.lease * 1000,
  };
  connection.messages.send({
    type: 'begin',
    id: record.id,
    lease_ms: record.lease_ms,
    container,
    container_id: record.container_id,
    ...ofContainerd,
    ...(store !== undefined && { store }),
    room_bytes: promisedBytes(moving),
    ...(how.gpuMap !== undefined && { gpu_map: how.gpuMap }),
    ...(how.ignoreMismatch !== undefined && { ignore_mismatch: how.ignoreMismatch }),
  });
  await connection.inTime(
    () => momentNow(how.root),
    () => connection.expect('begun'),
  );
  stage('migrate-source', 'begun');
  // From now on the machine says what a cancel ends.
  keep();
  const begin = (side: SourceSide, link: Link) => {
    link.use(connection);
    side.post({ type: 'accepted' });
  };
  return run(play, record, how, context, begin, moving);
}

/** The same for a migration that a killed process has begun. */
export async function continueMigration(
  record: SourceRecord,
  how: How,
  context: CommandContext,
): Promise<Move> {
  if (how.quiet !== true)
    context.err(`${record.container}: a migration to ${record.host} goes on\n`);
  return Play.during(record, record.phase, how.root, context, (play) =>
    run(play, record, how, context, (side) => side.restart()),
  );
}

async function run(
  play: Play,
  record: SourceRecord,
  how: How,
  context: CommandContext,
  begin: (side: SourceSide, link: Link) => Promise<void> | void,
  { contentBytes, memoryBytes = 0, sendsMemory }: Ahead = {
    contentBytes: 0,
    memoryBytes: undefined,
    sendsMemory: false,
  },
): Promise<Move> {
  const { container, host = '' } = record;
  const progress = progressOf(context);
  const say = (text: string) => {
    if (how.quiet !== true) context.err(`${container}: ${text}\n`);
  };
  const link = new Link(host, {
    heard: (message) => side.hear(message),
    lost: (error) => side.post({ type: 'lost', error }),
    tried: (error) => say(`cannot reach ${host} yet: ${error.message}`),
  });
  const onPhase = (phase: SourceState['phase']) => {
    play.phase = phase;
    const isAhead = phase === 'stopping' && (how.precopy ?? 0) > 0;
    const text = isAhead ? 'runs on while contents are sent ahead' : phaseTexts[phase];
    if (text !== undefined) say(text);
  };
  const side: SourceSide = new SourceSide(
    record,
    sourceHost(record, link, {
      ...settingOf(play, record, how, context, progress),
      contentBytes,
      sendsMemory,
      beforeStop: async (changed) => {
        if (changed !== undefined)
          await assertShort({ memory: memoryBytes, contents: changed }, how);
      },
    }),
    onPhase,
  );
  try {
    const state = await untilEnded(play, side, say, () => begin(side, link));
    // The target hears the last word, and has nothing left then.
    await link.finish();
    if (state.phase === 'done') return { record, moments: side.moments, bytes: play.meter.total };
    throw notMoved(record, state);
  } finally {
    progress.end();
    await link.close();
  }
}

/** Plays it to its end. A cancel reaches the machine meanwhile, and hears from it why it comes too late. */
async function untilEnded(
  play: Play,
  side: SourceSide,
  say: (text: string) => void,
  begin: () => Promise<void> | void,
): Promise<SourceState> {
  const cancel = () => side.post({ type: 'cancel', error: play.signal.reason as KfdError });
  play.tooLate = () => {
    const why = side.tooLate;
    if (why !== undefined) say(`too late to stop: ${why}; it is waited for the end`);
    return why;
  };
  play.signal.addEventListener('abort', cancel, { once: true });
  try {
    if (play.signal.aborted) cancel();
    await begin();
    return await side.ended;
  } finally {
    play.signal.removeEventListener('abort', cancel);
  }
}

function settingOf(
  play: Play,
  { container, container_id: containerId, engine, namespace = usualNamespace }: SourceRecord,
  { root, self, quiet, precopy = 0 }: How,
  context: CommandContext,
  progress: Progress,
): Omit<SourceSetting, keyof Ahead | 'beforeStop'> {
  return {
    root,
    run: context.run,
    self,
    listPages: context.native.listPages,
    sendFile: context.native.sendFile,
    store: archiveFolder(),
    rounds: precopy,
    onRound: (round) => {
      if (quiet !== true) context.err(`${container}: round ${round + 1} of ${precopy} is there\n`);
    },
    onNoMemory: ({ message }) => {
      if (quiet !== true)
        context.err(`${container}: its memory is not sent ahead: ${printable(message)}\n`);
    },
    whileAsked: ({ folder, stream, image, before }, work) => {
      const place = join(root, runFolder);
      const parent = before === undefined ? undefined : { path: before, isFolder: true };
      const asked = { folder, ...(stream && { stream }), ...(image && { image }) };
      const request = { operation: 'dump', ...asked } as const;
      return withRequest(place, request, (own) =>
        withParent(place, parent, context, true, async () => {
          const done = await work();
          return { done, frozenAt: freezeTold(own) };
        }),
      );
    },
    signal: play.signal,
    onProgress: (done, total) => {
      play.meter.update(done, total);
      if (quiet !== true) progress.update(paceOf(play.meter), done, total);
    },
    cancelCheckpoint: async (reason, ended) => {
      const task = { namespace, id: container };
      const ancestor = engine === 'containerd' ? await stockShim(task, root) : undefined;
      const which = ancestor === undefined ? { containerId } : { ancestor };
      return cancelCheckpoint(root, which, reason, ended);
    },
  };
}

/** What is sent, how fast, and how long it still takes. */
function paceOf({ done, total, rate: speed }: Meter): string {
  const left = leftUs({ bytes_done: done, bytes_total: total, bytes_per_s: speed });
  return left === undefined ? 'sending' : `sending, ${rate(speed)}, ${duration(left)} left`;
}

const phaseTexts: Partial<Record<SourceState['phase'], string>> = {
  stopping: 'making the checkpoint',
  sending: 'is stopped; sending it',
  granted: 'arrived; being started there',
  given: 'runs there',
  returning: 'being brought back here',
};

function notMoved(record: SourceRecord, { phase, failure, stranded }: SourceState): KfdError {
  const { container } = record;
  const reason = failure ?? asKfdError(new Error('its process was killed'), 'migrate');
  const details = { phase, migration: record.id };
  if (stranded !== undefined) {
    return new KfdError(
      stranded.code,
      `${container}: cannot be brought back: ${stranded.message}; it did not move: ${reason.message}`,
      { hint: `run "${againCommand(record)}" again`, cause: stranded, details },
    );
  }
  const { hint } = reason;
  const message = `${container}: did not move, and runs here: ${reason.message}`;
  const rest = { cause: reason, details };
  return new KfdError(reason.code, message, hint === undefined ? rest : { ...rest, hint });
}
