/** The control service of a session, on accepted sockets. */

import type { Socket } from 'node:net';
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import type { ErrorCode } from '../../../errors.js';
import { statusOf } from '../../../rpc-status.js';
import type { Controlled, SessionStatus } from '../types.js';
import { codeKey, controlService } from './definition.js';

/** Time between two statuses of a watched session, milliseconds. */
const intervalMs = 250;

/** The largest request, bytes: a request holds at most a reason. */
const maxRequestBytes = 16 << 10;

type Watch = ServerWritableStream<object, SessionStatus>;

export class ControlService {
  readonly #controlled: Controlled;
  readonly #server = new Server({
    'grpc.max_receive_message_length': maxRequestBytes,
    'grpc.max_concurrent_streams': 16,
    // Node.js does not notice the end of a client that broke HTTP/2 before.
    'grpc.keepalive_time_ms': 5000,
    'grpc.keepalive_timeout_ms': 20_000,
    'grpc.enable_channelz': 0,
  });
  readonly #injector = this.#server.createConnectionInjector(ServerCredentials.createInsecure());
  readonly #watches = new Set<Watch>();

  constructor(controlled: Controlled) {
    this.#controlled = controlled;
    this.#server.addService(controlService, this.#implementation());
  }

  /** Serves one client. */
  adopt(socket: Socket): void {
    this.#injector.injectConnection(socket);
  }

  /** Sends watchers a last status. Resolves when all clients have gone, after `ms` at the latest. */
  async end(ms: number): Promise<void> {
    for (const watch of this.#watches) {
      watch.write(this.#controlled.status());
      watch.end();
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => {
        this.#server.forceShutdown();
        resolve();
      }, ms);
      this.#server.tryShutdown(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #implementation(): UntypedServiceImplementation {
    return {
      Status: (_call: ServerUnaryCall<object, SessionStatus>, done: sendUnaryData<SessionStatus>) =>
        answer(done, () => this.#controlled.status()),
      Watch: (call: Watch) => this.#watch(call),
      Cancel: (
        { request }: ServerUnaryCall<{ readonly reason: string }, object>,
        done: sendUnaryData<object>,
      ) =>
        answer(done, () => {
          this.#controlled.cancel(request.reason);
          return {};
        }),
    };
  }

  #watch(call: Watch): void {
    const send = () => {
      // A slow reader gets fewer statuses: none is kept for it.
      if (call.writableLength === 0) call.write(this.#controlled.status());
    };
    const timer = setInterval(send, intervalMs);
    this.#watches.add(call);
    const forget = () => {
      clearInterval(timer);
      this.#watches.delete(call);
    };
    call.on('cancelled', forget).on('close', forget).on('finish', forget).on('error', forget);
    send();
  }
}

function answer<T>(done: sendUnaryData<T>, make: () => T): void {
  try {
    done(null, make());
  } catch (error) {
    done(failure(error));
  }
}

/** Recognised by its code: the program that threw it has its own copy of the class KfdError. */
function failure(error: unknown) {
  const known = error instanceof Error && 'code' in error ? String(error.code) : '';
  const code = Object.hasOwn(statusOf, known) ? (known as ErrorCode) : 'E_INTERNAL';
  const metadata = new Metadata();
  metadata.set(codeKey, code);
  const details = error instanceof Error ? error.message : String(error);
  return { code: statusOf[code], details, metadata };
}
