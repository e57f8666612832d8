/**
 * What a checkpoint does next: a pure function of where it is and of what has happened. session.ts runs the effects.
 *
 *     reading -> draining -> gate -> states -> manifest -> sealed -> kept -> done
 *                                       \-> unsealed -> resumed -> finishing -> manifest -> done      (short freeze)
 *     reading -> empty;   any of them -> failed;   any -> over, when CRIU has ended
 */

import { KfdError } from '../../errors.js';
import type { DumpEffect, DumpEvent, DumpPhase, DumpState, DumpStep } from './state.js';

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
    case 'result':
      return result(state, event.success);
    case 'unpaused':
      return step({ ...state, paused: false });
    case 'fail':
      return fail(state, event.error);
    case 'cancel':
      return whyTooLate(state) === undefined ? fail(state, event.error) : step(state);
    case 'criu-dead':
      return criuDead(state, event.survived);
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
    case 'done':
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

function result(state: DumpState, success: boolean): DumpStep {
  const asked = { ...state, asked: true };
  if (state.phase === 'over') return refuse(asked);
  if (!success) return criuFailed(asked);
  switch (state.phase) {
    case 'failed':
      return refuse(asked);
    case 'kept':
      return answer({ ...asked, phase: 'done' });
    case 'empty':
    case 'done':
      return answer(asked);
    case 'resumed': {
      const { state: next, effects } = moved({ ...asked, phase: 'finishing' });
      return { state: next, effects: ['drain-copies', ...effects] };
    }
    default:
      return unexpected(asked, 'success');
  }
}

/** The tree runs again. A later restore of this image would bring back older memory than the files beside it. */
function criuFailed(state: DumpState): DumpStep {
  const { state: failed, effects } = abandon({ ...state, asked: false });
  const next: DumpState = { ...failed, paused: false, asked: true, criuFailed: true };
  const unpause: DumpEffect[] = state.paused ? ['unpause'] : [];
  const removed = removeFailed(next);
  return { state: removed.state, effects: [...unpause, ...effects, ...removed.effects] };
}

/** After a write only. */
function removeFailed(state: DumpState): DumpStep {
  if (state.writing) return step(state);
  const { state: next, effects } = refuse(state);
  return { state: next, effects: ['remove-image', ...effects] };
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
  if (state.phase === 'failed') return state.criuFailed ? removeFailed(state) : refuse(state);
  if (event.type === 'write-failed') return fail(state, event.error);
  if (event.type === 'states-written') {
    return state.aside ? answer({ ...state, phase: 'unsealed' }) : write(state, 'manifest');
  }
  // With a short freeze CRIU has already reported its result.
  return answer({ ...state, phase: state.aside ? 'done' : 'sealed' });
}

/** A question of post-dump that is open now has lost its asker, because CRIU did not wait for the answer. */
function end(state: DumpState, success: boolean): DumpStep {
  const { phase } = state;
  if (phase === 'over' || (phase === 'empty' && success))
    return { ...step(state), answer: 'unpause' };
  if (mayStay(phase) && success) return { ...step({ ...state, phase: 'kept' }), answer: 'stay' };
  if (phase === 'unsealed' && success) {
    return { ...step({ ...state, phase: 'resumed' }), answer: 'continue' };
  }
  const { state: failed, effects } = abandon({ ...state, asked: false });
  return {
    state: failed,
    effects: state.asked ? [...effects, 'drop-question'] : effects,
    answer: 'unpause',
  };
}

/**
 * No process stays paused. An image that is not sealed is removed. A sealed one stays when CRIU has succeeded, or has
 * ended its tree: then nothing else has the tree's memory.
 */
function criuDead(state: DumpState, survived: boolean): DumpStep {
  if (state.phase === 'over') return step(state);
  const over: DumpState = {
    ...state,
    phase: 'over',
    paused: false,
    asked: false,
    outcome: outcomeOf(state, survived),
  };
  const effects: DumpEffect[] = state.paused
    ? ['unpause', 'cancel-transfers']
    : ['cancel-transfers'];
  return {
    state: over,
    effects: state.writing ? effects : [...effects, ...removal(over), 'report'],
  };
}

function outcomeOf({ phase }: DumpState, survived: boolean): NonNullable<DumpState['outcome']> {
  if (phase === 'empty') return 'no_gpu_state';
  const sealed = phase === 'done' || (mayStay(phase) && !survived);
  return sealed ? 'sealed' : 'abandoned';
}

/** Sealed, and nobody has said how CRIU ended: it depends on whether the tree has survived. */
export function mayStay(phase: DumpPhase): boolean {
  return phase === 'sealed' || phase === 'kept';
}

function removal({ outcome }: DumpState): DumpEffect[] {
  return outcome === 'sealed' ? [] : ['remove-image'];
}

/** A sealed image is complete, whatever comes later: only CRIU's own failure makes it useless. */
function fail(state: DumpState, error: KfdError): DumpStep {
  const { phase } = state;
  const late = phase === 'over' || phase === 'done' || mayStay(phase);
  return late ? refuse(state) : abandon(state, error);
}

/**
 * The first failure is the one that counts. Without `error`: CRIU failed by itself. Transfers that are cancelled for
 * that tell E_CANCELLED, which is no reason.
 */
function abandon(state: DumpState, error?: KfdError): DumpStep {
  const isEcho = state.phase === 'failed' && error?.code === 'E_CANCELLED';
  const failure = state.failure ?? (isEcho ? undefined : error);
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
