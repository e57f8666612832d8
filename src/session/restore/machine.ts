/**
 * What a restore does next: a pure function of where it is and of what has happened. session.ts runs the effects.
 *
 *     returning -> gate -> resuming -> resumed
 *     any before resumed -> failed (from the gate on by way of releasing);   any -> over, when CRIU has ended.
 * A CRIU that ends before the tasks run was killed, or has failed: what it has left of them is ended.
 */

import { KfdError } from '../../errors.js';

export type RestorePhase =
  /** CRIU restores tasks; contents are uploaded. */
  | 'returning'
  /** CRIU waits for the uploads. This is the last moment when a failure stops CRIU. */
  | 'gate'
  /** GPUs resume. */
  | 'resuming'
  /** The restore has succeeded. */
  | 'resumed'
  /** CRIU waits, and kills the tree after the answer. The session must not hold GPU memory then. */
  | 'releasing'
  /** The next answer to CRIU reports the failure, or the last one did. */
  | 'failed'
  /** CRIU has ended. */
  | 'over';

export interface RestoreState {
  readonly phase: RestorePhase;
  /** Descriptors and uploads: in use, being released, released. */
  readonly held: 'yes' | 'releasing' | 'no';
  /** CRIU has resumed the tasks: nobody ends them any more. */
  readonly running: boolean;
  readonly outcome?: 'restored' | 'failed';
  readonly failure?: KfdError;
}

export const initialRestore: RestoreState = {
  phase: 'returning',
  held: 'yes',
  running: false,
};

export type RestoreEvent =
  | { readonly type: 'post-restore' }
  /** The contents of all processes. */
  | { readonly type: 'uploaded' }
  | { readonly type: 'resumed' }
  /** CRIU has resumed the tasks. */
  | { readonly type: 'running' }
  /** Everything is released. */
  | { readonly type: 'released' }
  /**
   * A refusal, a failed task, an invalid message, a failed upload, a wrong mapping, or a process that does not resume.
   */
  | { readonly type: 'fail'; readonly error: KfdError }
  | { readonly type: 'deadline'; readonly error: KfdError }
  | { readonly type: 'cancel'; readonly error: KfdError }
  | { readonly type: 'criu-dead' };

export type RestoreEffect =
  | 'await-uploads'
  | 'resume'
  | 'close-buffers'
  | 'cancel-transfers'
  /** Ends the tasks that CRIU has left. */
  | 'end-tree'
  /** Ends uploads, closes all descriptors. */
  | 'release'
  /** To post-restore: success. */
  | 'answer'
  /** To post-restore: the failure. */
  | 'refuse'
  /** The result of the session. */
  | 'report';

export interface RestoreStep {
  readonly state: RestoreState;
  readonly effects: readonly RestoreEffect[];
}

export function transition(state: RestoreState, event: RestoreEvent): RestoreStep {
  const { phase } = state;
  switch (event.type) {
    case 'post-restore':
      if (phase === 'returning') return step({ ...state, phase: 'gate' }, 'await-uploads');
      if (phase === 'failed' && state.held === 'yes')
        return release({ ...state, phase: 'releasing' });
      if (phase === 'failed') return step(state, 'refuse');
      return fail(state, new KfdError('E_PROTOCOL', `restore: post-restore while ${phase}`));
    case 'uploaded':
      return phase === 'gate' ? step({ ...state, phase: 'resuming' }, 'resume') : step(state);
    case 'resumed':
      if (phase !== 'resuming') return step(state);
      return step({ ...state, phase: 'resumed' }, 'close-buffers', 'answer');
    case 'running':
      return step({ ...state, running: true });
    case 'released':
      return released({ ...state, held: 'no' });
    case 'fail':
      return fail(state, event.error);
    case 'deadline':
      return phase === 'gate' ? fail(state, event.error) : step(state);
    case 'cancel':
      return whyTooLate(state) === undefined ? fail(state, event.error) : step(state);
    case 'criu-dead':
      return criuDead(state);
  }
}

/** The reason why a cancel comes too late, if it does. */
export function whyTooLate({ phase }: RestoreState): string | undefined {
  switch (phase) {
    case 'returning':
    case 'gate':
      return undefined;
    case 'resuming':
    case 'resumed':
      return 'the GPU is running';
    case 'releasing':
    case 'failed':
      return 'the restore has failed';
    case 'over':
      return 'it has ended';
  }
}

/** The first failure is the one that counts: what follows ends the uploads, and is not the reason. */
function fail(state: RestoreState, failure: KfdError): RestoreStep {
  switch (state.phase) {
    case 'returning':
      return step({ ...state, phase: 'failed', failure }, 'cancel-transfers');
    case 'gate':
    case 'resuming':
      return release({ ...state, phase: 'releasing', failure });
    default:
      return step(state);
  }
}

function released(state: RestoreState): RestoreStep {
  if (state.phase === 'releasing') return step({ ...state, phase: 'failed' }, 'refuse');
  return state.phase === 'over' ? step(state, 'report') : step(state);
}

function criuDead(state: RestoreState): RestoreStep {
  if (state.phase === 'over') return step(state);
  const outcome = state.phase === 'resumed' && state.running ? 'restored' : 'failed';
  const over: RestoreState = { ...state, phase: 'over', outcome };
  const { state: next, effects } = letGo(over);
  return { state: next, effects: state.running ? effects : ['end-tree', ...effects] };
}

function letGo(over: RestoreState): RestoreStep {
  if (over.held === 'yes') return release(over);
  return over.held === 'no' ? step(over, 'report') : step(over);
}

function release(state: RestoreState): RestoreStep {
  return step({ ...state, held: 'releasing' }, 'release');
}

function step(state: RestoreState, ...effects: readonly RestoreEffect[]): RestoreStep {
  return { state, effects };
}
