/**
 * The sessions of this host, for other programs. Everything from their sockets is checked here. Text in it may be
 * hostile when printed.
 */

import { join } from 'node:path';
import { runFolder } from '../../criu/state-folder.js';
import { asKfdError, type ErrorCode, exitCodes, KfdError } from '../../errors.js';
import { statusCode } from '../../rpc-status.js';
import { loadGrpcPart } from './load.js';
import { controlSocketName, type SessionStatus } from './types.js';

/** Milliseconds. A session loads gRPC first, perhaps on a busy host. */
const answerMs = 30_000;
const never = new AbortController().signal;

/** Every call throws E_NOT_FOUND without a session, E_TIMEOUT, E_PROTOCOL, or the error of the session. */
export class SessionClient {
  readonly #criuPid: number;
  readonly #grpc: Awaited<ReturnType<typeof loadGrpcPart>>;
  readonly #client: InstanceType<Awaited<ReturnType<typeof loadGrpcPart>>['GrpcClient']>;

  private constructor(
    root: string,
    criuPid: number,
    grpc: Awaited<ReturnType<typeof loadGrpcPart>>,
  ) {
    this.#criuPid = criuPid;
    this.#grpc = grpc;
    this.#client = new grpc.GrpcClient(join(root, runFolder, String(criuPid), controlSocketName));
  }

  /** Calls `use` with a client of this CRIU's session. */
  static async with<T>(
    root: string,
    criuPid: number,
    use: (client: SessionClient) => Promise<T>,
  ): Promise<T> {
    const client = new SessionClient(root, criuPid, await loadGrpcPart());
    try {
      return await use(client);
    } catch (error) {
      throw client.#known(error);
    } finally {
      client.#client.close();
    }
  }

  /** `signal`, here and below: ends the wait for an answer. */
  status(signal: AbortSignal = never): Promise<SessionStatus> {
    return this.#client.status(answerMs, signal);
  }

  cancel(reason: string, signal: AbortSignal = never): Promise<void> {
    return this.#client.cancel(reason, answerMs, signal);
  }

  /** Yields statuses until the session ends or `signal` is aborted. */
  async *watch(signal: AbortSignal): AsyncGenerator<SessionStatus> {
    if (signal.aborted) return;
    const stream = this.#client.watch();
    const stop = () => stream.cancel();
    // An error may also come when nobody waits.
    stream.on('error', () => undefined);
    signal.addEventListener('abort', stop, { once: true });
    try {
      for await (const status of stream) yield status as SessionStatus;
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      signal.removeEventListener('abort', stop);
      stream.cancel();
    }
  }

  #known(error: unknown): KfdError {
    const failure = this.#grpc.callFailure(error);
    const subject = `session ${this.#criuPid}`;
    if (failure === undefined) return asKfdError(error, subject);
    const { code = '', details, status } = failure;
    if (Object.hasOwn(exitCodes, code))
      return new KfdError(code as ErrorCode, details, { cause: error });
    switch (status) {
      case statusCode.unavailable:
        return new KfdError('E_NOT_FOUND', `${subject}: there is none`, {
          cause: error,
          hint: 'see "kfd-checkpoint sessions"; one that was killed leaves its log in /var/log/kfd-checkpoint',
        });
      case statusCode.cancelled:
        return new KfdError('E_CANCELLED', `${subject}: interrupted`, { cause: error });
      case statusCode.deadlineExceeded:
        return new KfdError('E_TIMEOUT', `${subject}: no answer in ${answerMs / 1000} s`, {
          cause: error,
          hint: 'it may be stopped, or the host very busy: try again',
        });
      default:
        return new KfdError('E_PROTOCOL', `${subject}: ${details}`, { cause: error });
    }
  }
}
