/** The fields of the task service's messages that decide about interception. proto/task.proto has all fields. */

import { constants } from 'node:os';
import { bytesField, fieldsOf, numberField } from '../../src/protobuf.js';
import { hasParentField } from '../../src/runtime/shim-names.js';

/** Both versions of the service. Calls of other services are never intercepted. */
export function isTaskService(service: string): boolean {
  return service === 'containerd.task.v2.Task' || service === 'containerd.task.v3.Task';
}

/** Values of string fields by field number. The last field of a number counts. Throws E_PROTOCOL. */
function strings(message: Buffer, ...numbers: number[]): string[] {
  const found = numbers.map(() => '');
  for (const { number, value } of fieldsOf(message)) {
    const at = numbers.indexOf(number);
    if (at >= 0 && typeof value !== 'bigint') found[at] = value.toString();
  }
  return found;
}

/** Value of a number field, 0 without one. The last field of a number counts. Throws E_PROTOCOL. */
function numberIn(message: Buffer, wanted: number): bigint {
  let found = 0n;
  for (const { number, value } of fieldsOf(message)) {
    if (number === wanted && typeof value === 'bigint') found = value;
  }
  return found;
}

/** For State, Start, Kill and Delete. `execId` is empty for the first process. The id is field 1 of all calls. */
export function processOf(message: Buffer): { id: string; execId: string } {
  const [id = '', execId = ''] = strings(message, 1, 2);
  return { id, execId };
}

const { SIGKILL, SIGTERM, SIGINT, SIGQUIT } = constants.signals;
const stops = [SIGKILL, SIGTERM, SIGINT, SIGQUIT].map(BigInt);

/** Whether this KillRequest's signal is one by which containers are told to end. Throws E_PROTOCOL. */
export function isStop(kill: Buffer): boolean {
  return stops.includes(numberIn(kill, 3) ?? 0n);
}

/** Whether this KillRequest's signal is SIGKILL. Throws E_PROTOCOL. */
export function isSigkill(kill: Buffer): boolean {
  return numberIn(kill, 3) === BigInt(SIGKILL);
}

export interface CreateRequest {
  readonly id: string;
  readonly bundle: string;
  readonly checkpoint: string;
  /** Where the output goes: paths of FIFOs or files, or URIs. */
  readonly outputs: readonly string[];
  /** The OCI runtime in runc's options. Empty: the stock shim's default. */
  readonly binary: string;
}

/** Throws E_PROTOCOL, also when the options are not a protobuf message. */
export function createRequest(message: Buffer): CreateRequest {
  const [id = '', bundle = '', checkpoint = '', ...outputs] = strings(message, 1, 2, 8, 6, 7);
  let binary = '';
  for (const { number, value } of fieldsOf(message)) {
    if (number !== 10 || typeof value === 'bigint') continue;
    const [type] = strings(value, 1);
    if (type !== 'containerd.runc.v1.Options') continue;
    for (const part of fieldsOf(value)) {
      if (part.number === 2 && typeof part.value !== 'bigint')
        [binary = ''] = strings(part.value, 6);
    }
  }
  return { id, bundle, checkpoint, outputs: outputs.filter((path) => path !== ''), binary };
}

/** The image directory of a CheckpointTaskRequest. Throws E_PROTOCOL. */
export function checkpointPath(message: Buffer): string {
  const [path = ''] = strings(message, 2);
  return path;
}

/** Whether this CheckpointTaskRequest is for an image with a parent. Throws E_PROTOCOL. */
export function hasParent(checkpoint: Buffer): boolean {
  return numberIn(checkpoint, hasParentField) !== 0n;
}

/** A CreateTaskRequest that restores from `directory`. Of two fields with one number, the last one counts. */
export function restoringFrom(create: Buffer, directory: string): Buffer {
  return Buffer.concat([create, bytesField(8, directory)]);
}

/** Values of containerd.v1.types.Status. */
const status = { running: 2n, paused: 4n, pausing: 5n } as const;

/** Value of `status` in a StateResponse. Throws E_PROTOCOL. */
function statusIn(state: Buffer): bigint {
  return numberIn(state, 4);
}

/** Whether this StateResponse says so. Throws E_PROTOCOL. */
export function isPaused(state: Buffer): boolean {
  return statusIn(state) === status.paused;
}

/** Changes the StateResponse of a running process to "paused". Returns other ones unchanged. Throws E_PROTOCOL. */
export function pausedState(state: Buffer): Buffer {
  const current = statusIn(state);
  if (current !== status.running && current !== status.pausing) return state;
  return Buffer.concat([state, numberField(4, status.paused)]);
}

/** The opposite: of a paused process makes a running one. Throws E_PROTOCOL. */
export function runningState(state: Buffer): Buffer {
  const current = statusIn(state);
  if (current !== status.paused && current !== status.pausing) return state;
  return Buffer.concat([state, numberField(4, status.running)]);
}
