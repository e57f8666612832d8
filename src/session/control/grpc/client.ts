/** A client of the control service. Its promises reject with gRPC's errors; `../client.ts` converts them. */

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

/** The largest answer, bytes: a status with the most files an image may have fits. */
const maxAnswerBytes = 4 << 20;

/** The failure of a call. */
export interface CallFailure {
  /** A number of google.rpc.Code. */
  readonly status: number;
  readonly details: string;
  /** The session, as the service sees it. */
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

  /** `signal`, here and below: ends the call. */
  status(deadlineMs: number, signal: AbortSignal): Promise<SessionStatus> {
    return this.#call('Status', {}, deadlineMs, signal) as Promise<SessionStatus>;
  }

  async cancel(reason: string, deadlineMs: number, signal: AbortSignal): Promise<void> {
    await this.#call('Cancel', { reason }, deadlineMs, signal);
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

  #call(name: string, request: object, deadlineMs: number, signal: AbortSignal): Promise<object> {
    const { path, requestSerialize, responseDeserialize } = method(name);
    const options: CallOptions = { deadline: Date.now() + deadlineMs };
    return new Promise<object>((resolve, reject) => {
      const call = this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        new Metadata(),
        options,
        (error, answer) => {
          signal.removeEventListener('abort', stop);
          if (error === null) resolve(answer as object);
          else reject(error);
        },
      );
      const stop = () => call.cancel();
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    });
  }
}

function method(name: string) {
  const found = controlService[name];
  if (found === undefined) throw new Error(`control.proto: no method ${name}`);
  return found;
}

/** undefined: the error is not gRPC's. */
export function callFailure(error: unknown): CallFailure | undefined {
  if (!(error instanceof Error) || !('details' in error) || !('metadata' in error))
    return undefined;
  const { code, details, metadata } = error as ServiceError;
  const [name] = metadata.get(codeKey);
  return { status: code, details, code: typeof name === 'string' ? name : undefined };
}
