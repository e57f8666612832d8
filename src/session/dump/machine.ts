/**
 * What a checkpoint does next: a pure function of where it is and of what has happened. session.ts runs the effects.
 *
 *     reading -> draining -> gate -> states -> manifest -> sealed -> kept
 *                                       \-> unsealed -> resumed -> finishing -> manifest -> kept      (short freeze)
 *     reading -> empty;   any of them -> failed;   any -> over, when CRIU has ended
 */

import { KfdError } from '../../errors.js';

export type DumpPhase =
  /** The plugin pauses processes and sends their states. */
  | 'reading'
  /** CRIU dumps host memory; contents are drained. */
  | 'draining'
  /** CRIU waits for contents. */
  | 'gate'
  /** CRIU waits for the state files. */
  | 'states'
  /** CRIU waits for the manifest. */
  | 'manifest'
  /** Sealed. CRIU has not reported its result. */
  | 'sealed'
  /** Short freeze: the work that needs a stopped tree is done. CRIU has not reported its result. */
  | 'unsealed'
  /** Short freeze: the tree runs, and the container engine will get a success. */
  | 'resumed'
  /** Short freeze: CRIU's exit waits for the rest of the contents. */
  | 'finishing'
  /** The image stays. */
  | 'kept'
  /** No process uses a GPU now: there is nothing to save. */
  | 'empty'
  /** The next answer to CRIU reports the failure. */
  | 'failed'
  /** CRIU has ended. */
  | 'over';

export interface DumpState {
  readonly phase: DumpPhase;
  /** Short freeze: contents are copied, and the tree is resumed before the image is sealed. */
  readonly aside: boolean;
  /** A process may be paused. */
  readonly paused: boolean;
  readonly contents: 'none' | 'moving' | 'released' | 'drained';
  /** The current write. Files cannot be removed before it ends. */
  readonly writing: boolean;
  /** Post-dump or seal waits for an answer. */
  readonly asked: boolean;
  /** The tree was resumed before the seal: states stay, without a manifest. */
  readonly resumedUnsealed: boolean;
  readonly outcome?: 'sealed' | 'abandoned' | 'no_gpu_state';
  readonly failure?: KfdError;
}

export const initialDump: DumpState = {
  phase: 'reading',
  aside: false,
  paused: false,
  contents: 'none',
  writing: false,
  asked: false,
  resumedUnsealed: false,
};

export type DumpEvent =
  /** A process will be paused, or is paused. */
  | { readonly type: 'pause' }
  /** The drains begin. */
  | { readonly type: 'begin'; readonly aside: boolean }
  | { readonly type: 'post-dump'; readonly processes: number }
  /** The tree's buffers have been read. */
  | { readonly type: 'released' }
  | { readonly type: 'drained' }
  | { readonly type: 'states-written' }
  | { readonly type: 'manifest-written' }
  | { readonly type: 'write-failed'; readonly error: KfdError }
  /** The plugin asks whether the tree may stay paused. */
  | { readonly type: 'end'; readonly success: boolean }
  | { readonly type: 'seal' }
  | { readonly type: 'unpaused' }
  /** A refusal, an invalid message, or a failed transfer. */
  | { readonly type: 'fail'; readonly error: KfdError }
  | { readonly type: 'cancel'; readonly error: KfdError }
  | { readonly type: 'criu-dead' };

export type DumpEffect =
  | 'write-states'
  | 'write-manifest'
  /** Copies are drained from now on. */
  | 'drain-copies'
  /** The tree's buffers are no longer needed. */
  | 'close-buffers'
  | 'cancel-transfers'
  | 'unpause'
  | 'remove-image'
  | 'remove-pages'
  /** To post-dump or seal: success. */
  | 'answer'
  /** To post-dump or seal: the failure. */
  | 'refuse'
  /** The result of the session. */
  | 'report';

/** To `end`: unpause the tree, leave it paused, or unpause it before the seal. */
export type EndAnswer = 'unpause' | 'stay' | 'continue';

export interface DumpStep {
  readonly state: DumpState;
  readonly effects: readonly DumpEffect[];
  readonly answer?: EndAnswer;
}

export function transition(state: DumpState, event: DumpEvent): DumpStep {
  switch (event.type) {
    case 'pause':
      return pause(state);
    case 'begin':
      if (state.phase !== 'reading') return unexpected(state, 'begin');
      return step({ ...state, phase: 'draining', aside: event.aside, contents: 'moving' });
    case 'post-dump':
      return postDump(state, event.processes);
    case 'released':
      return state.contents === 'moving' ? read(state, 'released') : step(state);
    case 'drained':
      return read(state, 'drained');
    case 'states-written':
    case 'manifest-written':
    case 'write-failed':
      return state.writing ? written({ ...state, writing: false }, event) : step(state);
    case 'end':
      return end(state, event.success);
    case 'seal':
      return seal(state);
    case 'unpaused':
      return step({ ...state, paused: false });
    case 'fail':
      return fail(state, event.error);
    case 'cancel':
      return whyTooLate(state) === undefined ? fail(state, event.error) : step(state);
    case 'criu-dead':
      return criuDead(state);
  }
}

/** The reason why a cancel comes too late, if it does. */
export function whyTooLate({ phase }: DumpState): string | undefined {
  switch (phase) {
    case 'failed':
      return 'the checkpoint has failed';
    case 'manifest':
    case 'sealed':
    case 'kept':
    case 'empty':
      return 'the image is complete';
    case 'over':
      return 'it has ended';
    default:
      return undefined;
  }
}

/** A pause may be reported only after CRIU's death; the process is paused nevertheless. */
function pause(state: DumpState): DumpStep {
  if (state.phase === 'over') return step(state, 'unpause');
  const paused = { ...state, paused: true };
  const expected = state.phase === 'reading' || state.phase === 'failed';
  return expected ? step(paused) : unexpected(paused, 'pause');
}

function postDump(state: DumpState, processes: number): DumpStep {
  const asked = { ...state, asked: true };
  if (state.phase === 'failed') return refuse(asked);
  // The tree was looked at before it stopped: a GPU closed since then is no failure.
  if (state.phase === 'reading' && processes === 0) return answer({ ...asked, phase: 'empty' });
  return state.phase === 'draining'
    ? moved({ ...asked, phase: 'gate' })
    : unexpected(asked, 'post-dump');
}

function seal(state: DumpState): DumpStep {
  const asked = { ...state, asked: true };
  if (state.phase === 'failed') return refuse(asked);
  if (state.phase !== 'resumed') return unexpected(asked, 'seal');
  const { state: next, effects } = moved({ ...asked, phase: 'finishing' });
  return { state: next, effects: ['drain-copies', ...effects] };
}

/** Memory that the tree frees from now on must become free. */
function read(state: DumpState, contents: 'released' | 'drained'): DumpStep {
  const { state: next, effects } = moved({ ...state, contents });
  return { state: next, effects: ['close-buffers', ...effects] };
}

/** Goes to the next phase when the contents that CRIU waits for are ready. */
function moved(state: DumpState): DumpStep {
  const { phase, aside, contents } = state;
  const enough = contents === 'drained' || (aside && contents === 'released');
  if (phase === 'gate' && enough) return write(state, 'states');
  if (phase === 'finishing' && contents === 'drained') return write(state, 'manifest');
  return step(state);
}

function write(state: DumpState, phase: 'states' | 'manifest'): DumpStep {
  return step({ ...state, phase, writing: true }, `write-${phase}`);
}

/** `state`: without the write. */
function written(state: DumpState, event: DumpEvent): DumpStep {
  if (state.phase === 'over') return { state, effects: [...removal(state), 'report'] };
  if (state.phase === 'failed') return refuse(state);
  if (event.type === 'write-failed') return fail(state, event.error);
  if (event.type === 'states-written') {
    return state.aside ? answer({ ...state, phase: 'unsealed' }) : write(state, 'manifest');
  }
  // With a short freeze CRIU has already reported its result.
  return answer({ ...state, phase: state.aside ? 'kept' : 'sealed' });
}

function end(state: DumpState, success: boolean): DumpStep {
  const { phase } = state;
  if (phase === 'kept') return { ...step(state), answer: 'stay' };
  if (phase === 'over' || (phase === 'empty' && success))
    return { ...step(state), answer: 'unpause' };
  if (phase === 'sealed' && success)
    return { ...step({ ...state, phase: 'kept' }), answer: 'stay' };
  if (phase === 'unsealed' && success) {
    return { ...step({ ...state, phase: 'resumed', resumedUnsealed: true }), answer: 'continue' };
  }
  return { ...fail(state), answer: 'unpause' };
}

/** No process stays paused. An unfinished image is removed, and so is the image of a checkpoint that failed in CRIU. */
function criuDead(state: DumpState): DumpStep {
  if (state.phase === 'over') return step(state);
  const outcome = { kept: 'sealed', empty: 'no_gpu_state' } as const;
  const over: DumpState = {
    ...state,
    phase: 'over',
    paused: false,
    asked: false,
    outcome: outcome[state.phase as keyof typeof outcome] ?? 'abandoned',
  };
  const effects: DumpEffect[] = state.paused
    ? ['unpause', 'cancel-transfers']
    : ['cancel-transfers'];
  return {
    state: over,
    effects: state.writing ? effects : [...effects, ...removal(over), 'report'],
  };
}

/**
 * A container engine that got a success keeps the image. State files without a manifest show that it is
 * unfinished.
 */
function removal({ outcome, resumedUnsealed }: DumpState): DumpEffect[] {
  if (outcome === 'sealed') return [];
  return [resumedUnsealed ? 'remove-pages' : 'remove-image'];
}

/** The first failure is the one that counts. Without `error`: CRIU failed by itself. */
function fail(state: DumpState, error?: KfdError): DumpStep {
  if (state.phase === 'over' || state.phase === 'kept') return refuse(state);
  const failure = state.failure ?? error;
  const failed: DumpState = { ...state, phase: 'failed', ...(failure && { failure }) };
  if (state.phase === 'failed') return step(failed);
  const { state: next, effects } = refuse(failed);
  return { state: next, effects: ['cancel-transfers', ...effects] };
}

function unexpected(state: DumpState, what: string): DumpStep {
  return fail(state, new KfdError('E_PROTOCOL', `plugin: ${what} while ${state.phase}`));
}

function answer(state: DumpState): DumpStep {
  return step({ ...state, asked: false }, 'answer');
}

/** Answers only after a write has ended, because CRIU may remove a failed image. */
function refuse(state: DumpState): DumpStep {
  if (!state.asked || state.writing) return step(state);
  return step({ ...state, asked: false }, 'refuse');
}

function step(state: DumpState, ...effects: readonly DumpEffect[]): DumpStep {
  return { state, effects };
}
