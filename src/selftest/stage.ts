/** What a stage of the self-test is, and what it leaves in the report. */

import type { ErrorCode } from '../errors.js';

/** The stages in the order in which they run: each one takes more risk than those before it. */
export const stageNames = [
  'host',
  'copy',
  'queues',
  'pause',
  'canary',
  'podman',
  'containerd',
] as const;
export type StageName = (typeof stageNames)[number];

/** Something that a stage has done and measured. */
export interface Step {
  readonly name: string;
  /** Microseconds. */
  readonly us?: number;
  /** Bytes moved in this time. */
  readonly bytes?: number;
  readonly note?: string;
}

/** Microseconds since `began` of performance.now(), for a step. */
export const since = (began: number) => Math.round((performance.now() - began) * 1000);

/** What a stage works with. */
export interface StageWork {
  /** Aborted when the operator interrupts the self-test. */
  readonly signal: AbortSignal;
  step(step: Step): void;
  /** `action` runs when the stage ends, in whatever way; what was named last runs first. */
  undo(what: string, action: () => Promise<void>): void;
  /** `read` is asked when the stage fails, before anything is undone. Its text becomes a log of the report. */
  logOnFailure(name: string, read: () => Promise<string | undefined>): void;
}

export interface Stage {
  readonly name: StageName;
  /** Whether it makes the GPU work: the operator is asked before the first one that does. */
  readonly usesGpu: boolean;
  /** Throws the reason of a failure, or Skipped. */
  run(work: StageWork): Promise<void>;
}

/** A stage throws it when this host has nothing to try, which is no failure. */
export class Skipped extends Error {}

export interface Log {
  readonly name: string;
  readonly text: string;
}

/** `not_run`: a stage before it failed, or the operator said no. */
export type StageStatus = 'passed' | 'failed' | 'skipped' | 'not_run';

export interface StageResult {
  readonly name: StageName;
  readonly status: StageStatus;
  /** Microseconds, undoing included. */
  readonly us: number;
  /** Of a stage that did not pass. */
  readonly reason?: string;
  /** Of a stage that failed. */
  readonly code?: ErrorCode;
  readonly hint?: string;
  readonly steps: readonly Step[];
  readonly logs: readonly Log[];
}
