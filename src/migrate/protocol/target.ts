/**
 * What the target of a migration does next: a pure function of where it is and of what has happened.
 *
 *     receiving -> ready -> starting -> resumed -> owned -> settled
 *                                          \-> doubt -> owned, ended        any before owned -> ended
 * The target runs the container only with a lease, and only until the lease is over. A guard enforces that: a process
 * of its own, started before the lease is asked for. At the deadline it kills the target's process, if there is one,
 * and goes on with what that has recorded: it plays `restarted` with `over`.
 */

import type { KfdError } from '../../errors.js';

export type TargetPhase =
  /** Contents arrive. There is nothing that could run. */
  | 'receiving'
  /** All is there and was checked. The source was asked for the lease. */
  | 'ready'
  /** With the lease in hand, the container is being started. */
  | 'starting'
  /** It runs, as long as the lease lasts. */
  | 'resumed'
  /** The lease is over, and the source may have given the container up: it is paused until there is a word. */
  | 'doubt'
  /** The source has given it up: it runs for good. */
  | 'owned'
  /** It runs for good, and the source asks no more: nothing of the migration is recorded. */
  | 'settled'
  /** There is nothing here, and never will be. */
  | 'ended';

export interface TargetState {
  readonly phase: TargetPhase;
  /** The connection has gone: the process ends when its work is done. */
  readonly alone?: boolean;
  /** The first reason why it does not run here. */
  readonly failure?: KfdError;
}

export const initialTarget: TargetState = { phase: 'receiving' };

export type TargetEvent =
  /** All contents are there and were checked against this host. */
  | { readonly type: 'received' }
  /** The source's words. `late`: the deadline had passed when `grant` came. */
  | { readonly type: 'grant'; readonly late: boolean }
  | { readonly type: 'yours' }
  | { readonly type: 'done' }
  | { readonly type: 'revoke'; readonly error: KfdError }
  | { readonly type: 'query' }
  /** The container runs, or cannot be started. */
  | { readonly type: 'started' }
  | { readonly type: 'start-failed'; readonly error: KfdError }
  /** The deadline of the lease, which was set when it was asked for. */
  | { readonly type: 'expired'; readonly error: KfdError }
  /** A failure here, wrong contents, or a source that is silent for too long. */
  | { readonly type: 'fail'; readonly error: KfdError }
  | { readonly type: 'lost'; readonly error: KfdError }
  /** Another process, with the recorded phase. `over`: the deadline has passed, or the host has started again. */
  | {
      readonly type: 'restarted';
      readonly container: 'runs' | 'paused' | 'none';
      readonly over: boolean;
      readonly error: KfdError;
    };

export type TargetEffect =
  /** Writes the phase to the disk. Nothing after it happens before it is there. */
  | 'record'
  /** Starts the guard, which knows the recorded deadline. */
  | 'arm'
  | 'disarm'
  /** Starts the container; `started` or `start-failed` follows. */
  | 'start'
  /** The container stands still, or is killed where it cannot be paused. */
  | 'pause'
  /** It runs again, if it was paused. */
  | 'unpause'
  /** Ends what was started and removes it, the contents, too. */
  | 'remove'
  /** Words for the source. */
  | 'ask'
  | 'say-resumed'
  | 'say-taken'
  | 'say-failed'
  /** The process ends. The guard stays. */
  | 'leave';

export interface TargetStep {
  readonly state: TargetState;
  readonly effects: readonly TargetEffect[];
}

export function transition(state: TargetState, event: TargetEvent): TargetStep {
  if (event.type === 'restarted') return restarted(state, event);
  if (event.type === 'lost' && !isWorking(state)) return lost(state, event.error);
  switch (state.phase) {
    case 'receiving':
      if (event.type === 'received') return record(state, 'ready', 'arm', 'ask');
      return 'error' in event ? end(state, event.error) : step(state);
    case 'ready':
      if (event.type === 'grant' && !event.late) return record(state, 'starting', 'start');
      return 'error' in event ? end(state, event.error) : step(state);
    case 'starting':
      return starting(state, event);
    case 'resumed':
      return resumed(state, event);
    case 'doubt':
      return inDoubt(state, event);
    case 'owned':
      if (event.type === 'done') return record(state, 'settled');
      return isAsked(event) ? step(state, 'say-taken') : step(state);
    case 'settled':
      return isAsked(event) ? step(state, 'say-taken') : step(state);
    case 'ended':
      return isAsked(event) || event.type === 'revoke' ? step(state, 'say-failed') : step(state);
  }
}

/** The reason why a cancel on the target comes too late, if it does: only the source may stop it then. */
export function whyTooLateThere({ phase }: TargetState): string | undefined {
  switch (phase) {
    case 'receiving':
    case 'ready':
      return undefined;
    case 'starting':
    case 'resumed':
    case 'doubt':
    case 'owned':
    case 'settled':
      return 'this host may run the container';
    case 'ended':
      return 'the migration has failed';
  }
}

type Event = Exclude<TargetEvent, { type: 'restarted' }>;

/** The start goes on without a connection: the lease is what counts. */
function starting(state: TargetState, event: Event): TargetStep {
  if (event.type === 'lost') return step({ ...state, alone: true });
  if (event.type === 'started') {
    return state.alone === true
      ? record(state, 'resumed', 'leave')
      : record(state, 'resumed', 'say-resumed');
  }
  // Nobody was told that it runs, so the source will go on.
  return 'error' in event ? end(state, event.error) : step(state);
}

function resumed(state: TargetState, event: Event): TargetStep {
  switch (event.type) {
    case 'yours':
      return record(state, 'owned', 'disarm', 'say-taken');
    case 'expired':
      return doubt(state);
    case 'revoke':
      return end(state, event.error);
    case 'query':
      return step(state, 'say-resumed');
    default:
      return step(state);
  }
}

function inDoubt(state: TargetState, event: Event): TargetStep {
  switch (event.type) {
    case 'yours':
      return record(state, 'owned', 'disarm', 'unpause', 'say-taken');
    case 'revoke':
      return end(state, event.error);
    case 'query':
      return step(state, 'say-resumed');
    default:
      return step(state);
  }
}

function restarted(
  state: TargetState,
  { container, over, error }: Extract<TargetEvent, { type: 'restarted' }>,
): TargetStep {
  switch (state.phase) {
    case 'receiving':
    case 'ready':
    case 'starting':
      return end(state, error);
    case 'resumed':
      if (container === 'none') return end(state, error);
      return over || container === 'paused' ? doubt(state) : step(state);
    case 'doubt':
      return container === 'none' ? end(state, error) : step(state);
    case 'owned':
      return step(state, 'disarm', 'unpause');
    case 'settled':
    case 'ended':
      return step(state);
  }
}

/** With `start` at work, there is something to wait for. */
function isWorking({ phase }: TargetState): boolean {
  return phase === 'starting';
}

/** Without a lease nothing can become of it. With one, the recorded phase is for the next process. */
function lost(state: TargetState, error: KfdError): TargetStep {
  if (hasBegun(state)) return step(state, 'leave');
  const { state: ended } = end(state, error);
  return step(ended, 'record', 'disarm', 'leave');
}

/** First it stands still, then that is recorded: until then it counts as running, and the guard watches. */
function doubt(state: TargetState): TargetStep {
  return step({ ...state, phase: 'doubt' }, 'pause', 'record', 'disarm');
}

/** "Failed" is a promise, so it is said when all is removed and that is recorded. */
function end(state: TargetState, error: KfdError): TargetStep {
  const ended: TargetState = { ...state, phase: 'ended', failure: state.failure ?? error };
  const last = state.alone === true ? 'leave' : 'say-failed';
  const begun = hasBegun(state) ? (['remove'] as const) : [];
  return step(ended, ...begun, 'record', 'disarm', last);
}

/** Whether there may be a container of ours. Of another one with this id nothing may be removed. */
function hasBegun({ phase }: TargetState): boolean {
  return phase !== 'receiving' && phase !== 'ready';
}

function isAsked({ type }: Event): boolean {
  return type === 'query' || type === 'yours' || type === 'grant';
}

function record(state: TargetState, phase: TargetPhase, ...then: TargetEffect[]): TargetStep {
  return step({ ...state, phase }, 'record', ...then);
}

function step(state: TargetState, ...effects: readonly TargetEffect[]): TargetStep {
  return { state, effects };
}
