/** Encodes and decodes messages with their descriptions in proto/. */

import { fileURLToPath } from 'node:url';
import { loadSync, type MessageTypeDefinition } from '@grpc/proto-loader';

const folder = fileURLToPath(new URL('../../../proto', import.meta.url));

const definitions = loadSync(['task.proto', 'events.proto'], {
  includeDirs: [folder],
  keepCase: true,
  longs: String,
  defaults: true,
});

interface Codec<T extends object> {
  encode(message: T): Buffer;
  /** Throws when the bytes are not a message of this type. */
  decode(bytes: Buffer): T;
}

function codec<T extends object>(name: string): Codec<T> {
  const { serialize, deserialize } = definitions[name] as unknown as MessageTypeDefinition<T, T>;
  return { encode: serialize, decode: deserialize };
}

interface Any {
  readonly type_url: string;
  readonly value: Buffer;
}

export interface CreateTaskRequest {
  readonly id: string;
  readonly bundle: string;
  readonly checkpoint: string;
  readonly options: Any | null;
}
export const createTaskRequest = codec<CreateTaskRequest>('containerd.task.CreateTaskRequest');

export const checkpointTaskRequest = codec<{
  readonly id: string;
  readonly path: string;
  readonly options: Any | null;
}>('containerd.task.CheckpointTaskRequest');

interface RuncOptions {
  readonly binary_name: string;
  readonly root: string;
  readonly criu_work_path: string;
}
const runcOptions = codec<RuncOptions>('containerd.task.RuncOptions');
const checkpointOptions = codec<{ readonly work_path: string }>(
  'containerd.task.CheckpointOptions',
);

/** The options of Create for the OCI runtime. Missing ones are empty. Throws when the options are damaged. */
export function runcOptionsOf(options: Any | null): RuncOptions {
  const isRunc = options?.type_url === 'containerd.runc.v1.Options';
  return runcOptions.decode(isRunc ? options.value : Buffer.alloc(0));
}

/** The folder for CRIU's log of a restore. Empty: the caller names none. Throws when the options are damaged. */
export function restoreWorkPath(options: Any | null): string {
  return runcOptionsOf(options).criu_work_path;
}

/** The folder for CRIU's log of a checkpoint, in the same way. */
export function checkpointWorkPath(options: Any | null): string {
  if (options?.type_url !== 'containerd.runc.v1.CheckpointOptions') return '';
  return checkpointOptions.decode(options.value).work_path;
}

export const taskCheckpointed = codec<{
  readonly container_id: string;
  readonly checkpoint: string;
}>('containerd.events.TaskCheckpointed');

export const forwardRequest = codec<{
  readonly envelope: {
    readonly timestamp: { readonly seconds: string; readonly nanos: number };
    readonly namespace: string;
    readonly topic: string;
    readonly event: Any;
  };
}>('containerd.events.ForwardRequest');
