/** Of the task service's messages, what tells whether a call is of interest; proto/task.proto has the rest. */

import { bytesField, fieldsOf, numberField } from '../transport/fields.js';

/** Both versions of the service; nothing else is ever intercepted. */
export function isTaskService(service: string): boolean {
  return service === 'containerd.task.v2.Task' || service === 'containerd.task.v3.Task';
}

/** String fields by their numbers; the last of each number counts. Throws E_PROTOCOL. */
function strings(message: Buffer, ...numbers: number[]): string[] {
  const found = numbers.map(() => '');
  for (const { number, value } of fieldsOf(message)) {
    const at = numbers.indexOf(number);
    if (at >= 0 && typeof value !== 'bigint') found[at] = value.toString();
  }
  return found;
}

/** Of State, Start and Delete. `execId` is empty for the container's first process. The id is field 1 of all calls. */
export function processOf(message: Buffer): { id: string; execId: string } {
  const [id = '', execId = ''] = strings(message, 1, 2);
  return { id, execId };
}

export interface CreateRequest {
  readonly id: string;
  readonly bundle: string;
  readonly checkpoint: string;
  /** The OCI runtime that runc's options name; empty: the stock shim's own. */
  readonly binary: string;
}

/** Throws E_PROTOCOL, also when the options are no message. */
export function createRequest(message: Buffer): CreateRequest {
  const [id = '', bundle = '', checkpoint = ''] = strings(message, 1, 2, 8);
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
  return { id, bundle, checkpoint, binary };
}

/** CreateTaskRequest that restores from `directory`: a field that is there twice has its last value. */
export function restoringFrom(create: Buffer, directory: string): Buffer {
  return Buffer.concat([create, bytesField(8, directory)]);
}

/** Of containerd.v1.types.Status. */
const status = { running: 2n, paused: 4n, pausing: 5n } as const;

/** StateResponse of a process that runs as that of one that is paused; others as they are. Throws E_PROTOCOL. */
export function pausedState(state: Buffer): Buffer {
  let current = 0n;
  for (const { number, value } of fieldsOf(state)) {
    if (number === 4 && typeof value === 'bigint') current = value;
  }
  if (current !== status.running && current !== status.pausing) return state;
  return Buffer.concat([state, numberField(4, status.paused)]);
}
