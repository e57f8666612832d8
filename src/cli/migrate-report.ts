/** What `migrate` prints: the answer of the target, and a container that has moved. */

import { KfdError } from '../errors.js';
import type { Estimate, LastMove } from '../migrate/estimate.js';
import { pairRow } from './check-archive.js';
import { duration, rate, size, table } from './format.js';
import type { Asked } from './migrate-question.js';
import type { Move } from './migrate-run.js';

/** One error for all reasons, with the code of the first one. */
export function refusalOf(
  container: string,
  host: string,
  { answer }: Asked,
): KfdError | undefined {
  const { reasons } = answer;
  const [first] = reasons;
  if (first === undefined) return undefined;
  const more = reasons.length === 1 ? '' : ` (and ${reasons.length - 1} more)`;
  const message = `${container}: would not move to ${host}: ${first.message}${more}`;
  return new KfdError(first.code, message, { hint: first.hint, details: { reasons } });
}

/** Within `schema_version` 1 members are only added. */
export function answerAsJson(container: string, host: string, asked: Asked) {
  const { moving, facts, answer, estimate } = asked;
  const { reasons, warnings, ignored, placement } = answer;
  return {
    schema_version: 1,
    container,
    host,
    able: reasons.length === 0,
    memory_bytes: moving.memoryBytes ?? null,
    changed_bytes: moving.changedBytes ?? null,
    content_bytes: moving.contentBytes,
    estimate: estimate
      ? {
          rate_bytes_per_s: estimate.rate,
          send_ms: estimate.sendMs,
          downtime_ms: estimate.downtimeMs,
          measured: estimate.isMeasured,
        }
      : null,
    target: {
      hostname: facts.host.hostname,
      kernel_release: facts.host.kernel_release,
      release: facts.release,
      tools: facts.tools,
      memory_free_bytes: facts.memory_free_bytes,
      store: facts.store,
      engine_store: facts.engine_store ?? null,
    },
    gpus: placement.pairs.map(({ recorded, present }) => ({
      here: recorded,
      there: { ...present.record, vram_free_bytes: present.vramFreeBytes },
    })),
    moves: placement.moves,
    ignored,
    warnings,
    reasons,
  };
}

/** What an estimate rests on is said with it. */
export function estimateAsText({ rate: speed, downtimeMs, isMeasured }: Estimate): string {
  const basis = isMeasured ? 'the last one from this host' : 'a guess for checkpoint and restore';
  const time = duration(downtimeMs * 1000);
  return `would stand still for about ${time} (${rate(speed)} on the way, and ${basis})`;
}

export function answerAsText(host: string, { moving, answer, estimate }: Asked): string {
  const { reasons, warnings, ignored, placement } = answer;
  const parts: string[] = [];
  const add = (heads: readonly string[], rows: readonly (readonly string[])[]) => {
    if (rows.length > 0) parts.push(table(heads, rows));
  };
  const heads = ['GPU', 'MODEL', 'IS', 'BECOMES', 'LOCATION THERE', 'FREE VRAM'];
  add(heads, placement.pairs.map(pairRow));
  add(
    ['IGNORED', 'DIFFERENCE'],
    ignored.map(({ difference, message }) => [difference ?? '', message]),
  );
  add(
    ['WARNING', 'NEXT STEP'],
    warnings.map(({ message, hint }) => [message, hint]),
  );
  add(
    ['REASON', `WHY ${host} CANNOT TAKE IT`, 'NEXT STEP'],
    reasons.map(({ code, message, hint }) => [code, message, hint]),
  );
  if (reasons.length === 0) {
    const { memoryBytes, changedBytes = 0, contentBytes } = moving;
    const memory = memoryBytes === undefined ? 'an unknown size' : size(memoryBytes);
    const files = changedBytes === 0 ? '' : `, ${size(changedBytes)} of changed files`;
    const amount = `${memory} of memory, ${size(contentBytes)} of VRAM${files}`;
    parts.push(`${moving.question.container} would move to ${host}: ${amount}\n`);
    if (estimate) parts.push(`It ${estimateAsText(estimate)}\n`);
  }
  return parts.join('\n');
}

/** What a later estimate compares with. undefined: another process has seen the beginning. */
export function lastMoveOf(move: Move): Omit<LastMove, 'schema_version'> | undefined {
  const { downtime, checkpoint, send } = parts(move);
  const isSeen = downtime !== undefined && checkpoint !== undefined && send !== undefined;
  if (!isSeen || move.bytes === 0) return undefined;
  const others = Math.max(0, downtime - checkpoint - send);
  return { bytes: move.bytes, checkpoint_ms: checkpoint, others_ms: others };
}

/** The parts of the downtime, milliseconds; undefined where another process has seen them begin. */
function parts({ moments }: Move) {
  const between = (from: Parameters<typeof moments.get>[0], to: typeof from) => {
    const [begin, end] = [moments.get(from), moments.get(to)];
    return begin === undefined || end === undefined ? undefined : Math.round(end - begin);
  };
  const from = moments.has('frozen') ? 'frozen' : 'stop';
  return {
    downtime: between(from, 'resumed'),
    checkpoint: between(from, 'stopped'),
    send: between('stopped', 'sent'),
    check: between('sent', 'ready'),
    restore: between('ready', 'resumed'),
  };
}

/** What the downtime counts from: what the session has told, or the call of podman before it. */
const beginOf = ({ moments }: Move) => (moments.has('frozen') ? 'freeze' : 'podman');

/** From the call of podman to the freeze, milliseconds: the container still runs. undefined: not known. */
function before({ moments }: Move): number | undefined {
  const [begin, end] = [moments.get('stop'), moments.get('frozen')];
  return begin === undefined || end === undefined ? undefined : Math.round(end - begin);
}

/** Within `schema_version` 1 members are only added. */
export function moveAsJson(move: Move) {
  const { record, bytes } = move;
  const { downtime, ...others } = parts(move);
  return {
    schema_version: 1,
    container: record.container,
    host: record.host,
    migration: record.id,
    bytes: bytes === 0 ? null : bytes,
    downtime_ms: downtime ?? null,
    downtime_from: downtime === undefined ? null : beginOf(move),
    before_ms: before(move) ?? null,
    parts_ms: Object.fromEntries(
      Object.entries(others).map(([name, value]) => [name, value ?? null]),
    ),
  };
}

export function moveAsText(move: Move): string {
  const { container, host } = move.record;
  const { downtime, ...others } = parts(move);
  if (downtime === undefined) return `${container} runs on ${host}\n`;
  const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
  const told = Object.entries(others).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name} ${seconds(value)}`],
  );
  return `${container} runs on ${host}: stood still for ${seconds(downtime)} (${told.join(', ')})\n`;
}
