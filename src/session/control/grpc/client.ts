/** A client of the control service. Its promises reject with errors of gRPC: `../client.ts` makes them ours. */

import {
  type CallOptions,
  Client,
  type ClientReadableStream,
  credentials,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import type { SessionStatus } from '../types.js';
import { codeKey, controlService } from './definition.js';

/** Of an answer: a status with as many files as an image may have fits. */
const maxAnswerBytes = 4 << 20;

/** What a call failed with. */
export interface CallFailure {
  /** Of google.rpc.Code. */
  readonly status: number;
  readonly details: string;
  /** What the service calls it: from outside. */
  readonly code: string | undefined;
}

export class GrpcClient {
  readonly #client: Client;

  constructor(socketPath: string) {
    this.#client = new Client(`unix:${socketPath}`, credentials.createInsecure(), {
      'grpc.max_receive_message_length': maxAnswerBytes,
      'grpc.enable_channelz': 0,
      'grpc.enable_http_proxy': 0,
    });
  }

  status(deadlineMs: number): Promise<SessionStatus> {
    return this.#call('Status', {}, deadlineMs) as Promise<SessionStatus>;
  }

  async cancel(reason: string, deadlineMs: number): Promise<void> {
    await this.#call('Cancel', { reason }, deadlineMs);
  }

  watch(): ClientReadableStream<SessionStatus> {
    const { path, requestSerialize, responseDeserialize } = method('Watch');
    return this.#client.makeServerStreamRequest(
      path,
      requestSerialize,
      responseDeserialize as (bytes: Buffer) => SessionStatus,
      {},
    );
  }

  close(): void {
    this.#client.close();
  }

  #call(name: string, request: object, deadlineMs: number): Promise<object> {
    const { path, requestSerialize, responseDeserialize } = method(name);
    const options: CallOptions = { deadline: Date.now() + deadlineMs };
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        new Metadata(),
        options,
        (error, answer) => (error === null ? resolve(answer as object) : reject(error)),
      );
    });
  }
}

function method(name: string) {
  const found = controlService[name];
  if (found === undefined) throw new Error(`control.proto: no method ${name}`);
  return found;
}

/** undefined: it is none of gRPC's. */
export function callFailure(error: unknown): CallFailure | undefined {
  if (!(error instanceof Error) || !('details' in error) || !('metadata' in error))
    return undefined;
  const { code, details, metadata } = error as ServiceError;
  const [name] = metadata.get(codeKey);
  return { status: code, details, code: typeof name === 'string' ? name : undefined };
}
