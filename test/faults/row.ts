/** One combination of operation, fault and moment, and what became of it. */

import type { Engine } from '../e2e/support/container.js';
import type { PodmanOperation } from './operations.js';
import type { Stage } from './stages/list.js';
import type { Victim } from './support/victims.js';

/** `ctr container checkpoint` and `ctr container restore`. */
export const containerdOperations = ['ctr-checkpoint', 'ctr-restore'] as const;
export type ContainerdOperation = (typeof containerdOperations)[number];
/** Of a container without a GPU, as controls. */
export const plainOperations = ['plain-export', 'plain-leave', 'plain-import'] as const;
export type PlainOperation = (typeof plainOperations)[number];
/** Without contents ahead, and with a round of them. */
export const migrateOperations = ['migrate', 'migrate-ahead'] as const;
export type MigrateOperation = (typeof migrateOperations)[number];
export type OperationName =
  | PodmanOperation
  | ContainerdOperation
  | PlainOperation
  | MigrateOperation;

/** Whether nothing of this product takes part: what goes wrong is others'. */
export function isControl({ operation }: { readonly operation: string }): boolean {
  return plainOperations.some((name) => name === operation);
}

/** The guest's containerd, and the release that follows it. */
export const daemons = ['containerd', 'next containerd'] as const;
export const plainEngines = ['plain crun', 'plain runc'] as const;
/** From podman to another storage of podman. */
export const migrateEngines = ['crun to second', 'runc to second'] as const;
export type RowEngine =
  | Engine
  | (typeof daemons)[number]
  | (typeof plainEngines)[number]
  | (typeof migrateEngines)[number];

/** SIGSTOP is followed by SIGCONT three seconds later. */
export const signals = ['SIGKILL', 'SIGTERM', 'SIGSTOP'] as const;
export type Signal = (typeof signals)[number];

/** What may be wrong with a host: support/conditions.ts. */
export const conditionNames = [
  'log full',
  'run full',
  'archive full',
  'image full',
  'image full soon',
  'tmp full',
  'image EIO',
  'session without memory',
  'kernel without memory',
  'kernel without memory later',
  'session without descriptors',
  'clock back',
  'etc read-only',
  'var read-only',
  'cancelled',
] as const;
export type Condition = (typeof conditionNames)[number];

export interface Step {
  /** Without one: a condition before the operation begins, a signal as soon as CRIU works. */
  readonly stage?: Stage;
  readonly fault: { readonly victim: Victim; readonly signal: Signal } | Condition;
}

export interface Row {
  readonly operation: OperationName;
  readonly engine: RowEngine;
  /** In this order. */
  readonly steps: readonly Step[];
}

export interface Result {
  readonly row: string;
  readonly operation: string;
  readonly engine: string;
  readonly victim: string;
  readonly fault: string;
  readonly stage: string;
  readonly outcome: string;
  /** Of this product. */
  readonly problems: readonly string[];
  /** Of other programs alone, with what shows it. */
  readonly upstream: readonly string[];
  /** What it left is as it should be, and can be used by the next row. */
  readonly sound: boolean;
  readonly seconds: number;
  /** What the engine said. */
  readonly said: string;
}

/** This victim gets the signal when somebody stands at the point. */
export function struck(victim: Victim, stage: Stage, signal: Signal = 'SIGKILL'): Step {
  return { stage, fault: { victim, signal } };
}

function text({ stage, fault }: Step): string {
  const what = typeof fault === 'string' ? fault : `${fault.victim} ${fault.signal}`;
  return stage === undefined ? what : `${what} at ${stage}`;
}

export function nameOf({ operation, engine, steps }: Row): string {
  return `${operation} (${engine}): ${steps.map(text).join(', then ')}`;
}
