/** What a session reports, and what it can be asked to do. Names are as in proto/control.proto. */

import { type ErrorCode, KfdError } from '../../errors.js';

interface Bytes {
  readonly bytes_done: number;
  readonly bytes_total: number;
}

export interface SessionStatus extends Bytes {
  readonly operation: 'OPERATION_UNSPECIFIED' | 'OPERATION_DUMP' | 'OPERATION_RESTORE';
  readonly criu_pid: number;
  readonly container_id: string;
  readonly phase: string;
  readonly elapsed_us: number;
  readonly phase_us: number;
  /** Microseconds since the first transfer of contents began; 0 before. */
  readonly transfer_us: number;
  readonly processes: number;
  readonly gpus: readonly (Bytes & { readonly render_node: string })[];
  readonly files: readonly (Bytes & {
    readonly name: string;
    readonly process: number;
    readonly render_node: string;
    /** It waits for staging memory that other sessions use. */
    readonly waiting: boolean;
    /** Why the CPU copies, which is slow; empty: the configured engine does. */
    readonly engine_reason: string;
  })[];
  readonly log_path: string;
  readonly cancelled: boolean;
  /** Missing until the session has ended. */
  readonly result: SessionResult | null;
}

export interface SessionResult {
  readonly outcome: 'sealed' | 'no_gpu_state' | 'abandoned' | 'restored' | 'failed';
  readonly success: boolean;
  readonly code: ErrorCode | '';
  readonly message: string;
}

/** What the control service needs of a session. */
export interface Controlled {
  status(): SessionStatus;
  /** Throws E_TOO_LATE. */
  cancel(reason: string): void;
}

/** The part of a dump or restore that can be controlled. */
export interface Cancellable {
  /** GPU processes known so far; pids as on the host. */
  readonly processes: readonly { readonly pid?: number }[];
  /** Makes the session fail with `reason`. Throws E_TOO_LATE. */
  cancel(reason: KfdError): void;
}

export function resultOf(
  outcome: SessionResult['outcome'],
  failure: KfdError | undefined,
): SessionResult {
  const success = outcome !== 'abandoned' && outcome !== 'failed';
  const { code, message } =
    success || failure === undefined ? ({ code: '', message: '' } as const) : failure;
  return { outcome, success, code, message };
}

/** The error of a cancel that comes after `what`. */
export function tooLate(what: string): KfdError {
  return new KfdError('E_TOO_LATE', `session: cannot be cancelled: ${what}`);
}

/**
 * The control socket's name, beside the socket for plugin and launcher. native/core/wire/session_socket.cc has it, too.
 */
export const controlSocketName = 'control.sock';
