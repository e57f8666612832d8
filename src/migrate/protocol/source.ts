/**
 * What the source of a migration does next: a pure function of where it is and of what has happened.
 *
 *     asking -> stopping -> sending -> granted -> given -> done
 *                   any from stopping on -> returning -> returned
 * Until `granted` the source decides alone: the target may not run anything. From then on the lease decides, until the
 * target has said that it runs. `given` is the last decision, and the target learns of it as often as it takes.
 */

import type { KfdError } from '../../errors.js';

export type SourcePhase =
  /** The container runs here. The target is asked; contents may be sent ahead. */
  | 'asking'
  /** A checkpoint stops the container. */
  | 'stopping'
  /** It is stopped. The target gets the rest and prepares. */
  | 'sending'
  /** The target may run it until the lease is over. */
  | 'granted'
  /** The target runs it. It is told so until it confirms. */
  | 'given'
  /** The container is being brought back here. */
  | 'returning'
  /** It cannot be brought back here. The next start tries again. */
  | 'stranded'
  /** It runs here again, or was never stopped. */
  | 'returned'
  /** The target has confirmed that it keeps it. */
  | 'done';

export interface SourceState {
  readonly phase: SourcePhase;
  /** Why it does not move: the first reason. */
  readonly failure?: KfdError;
  /** Why it cannot be brought back. */
  readonly stranded?: KfdError;
}

export const initialSource: SourceState = { phase: 'asking' };

export type SourceEvent =
  /** The target has no reason against it, and what can be sent ahead is there. */
  | { readonly type: 'accepted' }
  /** The checkpoint is complete, the container stopped. */
  | { readonly type: 'stopped' }
  | { readonly type: 'stop-failed'; readonly error: KfdError }
  /** The target's words. `ready` asks for the lease. `failed`: it will never run this container. */
  | { readonly type: 'ready' }
  | { readonly type: 'resumed' }
  | { readonly type: 'taken' }
  | { readonly type: 'failed'; readonly error: KfdError }
  /** The connection: gone, there again, or silent for too long. */
  | { readonly type: 'lost'; readonly error: KfdError }
  | { readonly type: 'connected' }
  | { readonly type: 'silent'; readonly error: KfdError }
  /** The target's lease is over, whatever its clock says. */
  | { readonly type: 'expired'; readonly error: KfdError }
  /** A failure here: what is to be sent cannot be read. */
  | { readonly type: 'fail'; readonly error: KfdError }
  | { readonly type: 'cancel'; readonly error: KfdError }
  /** The container runs here again, or cannot be brought back. */
  | { readonly type: 'back' }
  | { readonly type: 'back-failed'; readonly error: KfdError }
  /** The process was killed. This is another one, with the recorded phase. */
  | { readonly type: 'restarted' };

export type SourceEffect =
  /** Writes the phase to the disk. Nothing after it happens before it is there. */
  | 'record'
  /** Begins the checkpoint; `stopped` or `stop-failed` follows. */
  | 'stop'
  /** Makes a running checkpoint end early, if it still can. */
  | 'cancel-stop'
  /** What the target does not have yet. */
  | 'send'
  /** Words for the target. `revoke`: it shall not run, and remove what it has. */
  | 'grant'
  | 'yours'
  | 'revoke'
  /** The target is never asked again: it need not remember the migration. */
  | 'done'
  /** Asks a target that was out of reach how far it is. */
  | 'query'
  /** Makes a new connection, again and again; `connected` follows. */
  | 'connect'
  /** Brings the container back, unless it runs; `back` or `back-failed` follows. */
  | 'bring-back'
  /** The stopped container is the target's now: only this may remove it. */
  | 'forget'
  /** The end of the migration. */
  | 'report';

export interface SourceStep {
  readonly state: SourceState;
  readonly effects: readonly SourceEffect[];
}

export function transition(state: SourceState, event: SourceEvent): SourceStep {
  switch (event.type) {
    case 'restarted':
      return restarted(state);
    case 'back':
      return state.phase === 'returning' ? record(state, 'returned', 'report') : step(state);
    case 'back-failed':
      return state.phase === 'returning'
        ? step({ ...state, phase: 'stranded', stranded: event.error }, 'report')
        : step(state);
    default:
      return going(state, event);
  }
}

/** The reason why a cancel comes too late, if it does. */
export function whyTooLate({ phase }: SourceState): string | undefined {
  switch (phase) {
    case 'asking':
    case 'stopping':
    case 'sending':
      return undefined;
    case 'granted':
    case 'given':
    case 'done':
      return 'the target may run the container';
    case 'returning':
    case 'stranded':
    case 'returned':
      return 'the migration has failed';
  }
}

type GoingEvent = Exclude<SourceEvent, { type: 'restarted' | 'back' | 'back-failed' }>;

function going(state: SourceState, event: GoingEvent): SourceStep {
  switch (state.phase) {
    case 'asking':
      if (event.type === 'accepted') return record(state, 'stopping', 'stop');
      return 'error' in event
        ? step({ phase: 'returned', failure: event.error }, 'revoke', 'report')
        : step(state);
    case 'stopping':
      return stopping(state, event);
    case 'sending':
      if (event.type === 'ready') return record(state, 'granted', 'grant');
      return 'error' in event && event.type !== 'expired'
        ? record(because(state, event.error), 'returning', 'revoke', 'bring-back')
        : step(state);
    case 'granted':
      return granted(state, event);
    case 'given':
      return given(state, event);
    case 'returning':
    case 'stranded':
    case 'returned':
      return wanted(event) ? step(state, 'revoke') : step(state);
    case 'done':
      return step(state);
  }
}

/** A checkpoint has its own end: what went wrong meanwhile waits for it. */
function stopping(state: SourceState, event: GoingEvent): SourceStep {
  if (event.type === 'stop-failed' || (event.type === 'stopped' && state.failure !== undefined)) {
    const failed = event.type === 'stop-failed' ? because(state, event.error) : state;
    return record(failed, 'returning', 'revoke', 'bring-back');
  }
  if (event.type === 'stopped') return step({ ...state, phase: 'sending' }, 'send');
  if (!('error' in event) || event.type === 'expired' || state.failure !== undefined)
    return step(state);
  return step(because(state, event.error), 'cancel-stop');
}

/** Only the target's own word, or the end of its lease, makes it safe to go on here. */
function granted(state: SourceState, event: GoingEvent): SourceStep {
  switch (event.type) {
    case 'resumed':
      return record(state, 'given', 'yours');
    case 'failed':
    case 'expired':
      return record(because(state, event.error), 'returning', 'revoke', 'bring-back');
    case 'lost':
      return step(state, 'connect');
    case 'connected':
      return step(state, 'query');
    default:
      return step(state);
  }
}

function given(state: SourceState, event: GoingEvent): SourceStep {
  switch (event.type) {
    case 'taken':
      return record(state, 'done', 'forget', 'done', 'report');
    // Its host has started again before it heard that it keeps the container.
    case 'failed':
      return record(because(state, event.error), 'returning', 'bring-back');
    case 'lost':
      return step(state, 'connect');
    case 'connected':
    case 'resumed':
      return step(state, 'yours');
    default:
      return step(state);
  }
}

/** The target waits for a word, or has come back into reach. */
function wanted({ type }: GoingEvent): boolean {
  return type === 'ready' || type === 'resumed' || type === 'connected';
}

function restarted(state: SourceState): SourceStep {
  switch (state.phase) {
    case 'stopping':
      return record(state, 'returning', 'bring-back');
    case 'granted':
    case 'given':
      return step(state, 'connect');
    case 'returning':
    case 'stranded':
      // The target may wait for a word.
      return step({ ...state, phase: 'returning' }, 'bring-back', 'connect');
    case 'done':
      return step(state, 'forget', 'report');
    default:
      return step(state);
  }
}

function because(state: SourceState, error: KfdError): SourceState {
  return { ...state, failure: state.failure ?? error };
}

function record(state: SourceState, phase: SourcePhase, ...then: SourceEffect[]): SourceStep {
  return step({ ...state, phase }, 'record', ...then);
}

function step(state: SourceState, ...effects: readonly SourceEffect[]): SourceStep {
  return { state, effects };
}
