/** Where a checkpoint is, what can happen, and what follows: the words of machine.ts. */

import type { KfdError } from '../../errors.js';

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
  /** Sealed. The plugin has not reported the end of the dump. */
  | 'sealed'
  /** Short freeze: the work that needs a stopped tree is done. The plugin has not reported the end of the dump. */
  | 'unsealed'
  /** Short freeze: the tree runs. The container engine has no answer yet. */
  | 'resumed'
  /** Short freeze: CRIU's answer waits for the rest of the contents. */
  | 'finishing'
  /** Sealed. CRIU lets the tree go. Its result is not known: post-dump may have failed. */
  | 'kept'
  /** CRIU has succeeded. The image stays. */
  | 'done'
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
  /** Post-dump or CRIU's result waits for an answer. */
  readonly asked: boolean;
  /** CRIU has let the tree go and has failed. The image is removed before CRIU ends. */
  readonly criuFailed: boolean;
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
  criuFailed: false,
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
  /** CRIU is about to end. It knows whether post-dump has failed, which `end` does not say. */
  | { readonly type: 'result'; readonly success: boolean }
  | { readonly type: 'unpaused' }
  /** A refusal, an invalid message, or a failed transfer. */
  | { readonly type: 'fail'; readonly error: KfdError }
  | { readonly type: 'cancel'; readonly error: KfdError }
  /** `survived`: a GPU process runs on. */
  | { readonly type: 'criu-dead'; readonly survived: boolean };

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
  /** To post-dump or CRIU's result: success. */
  | 'answer'
  /** To post-dump or CRIU's result: the failure. It is given when the image is removed, if it is being removed. */
  | 'refuse'
  /** The asker of post-dump has gone. */
  | 'drop-question'
  /** The result of the session. */
  | 'report';

/** To `end`: unpause the tree, leave it paused, or unpause it before the seal. */
export type EndAnswer = 'unpause' | 'stay' | 'continue';

export interface DumpStep {
  readonly state: DumpState;
  readonly effects: readonly DumpEffect[];
  readonly answer?: EndAnswer;
}
