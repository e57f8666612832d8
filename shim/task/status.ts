/** Our errors as statuses of ttrpc: containerd's clients tell users the message, and programs the code. */

import type { ErrorCode, KfdError } from '../../src/errors.js';
import { type Response, statusCode } from '../transport/envelope.js';

const statuses = {
  E_NO_GPU: statusCode.failedPrecondition,
  E_GPU_MISMATCH: statusCode.failedPrecondition,
  E_VRAM: statusCode.failedPrecondition,
  E_KERNEL_MISMATCH: statusCode.failedPrecondition,
  E_DEVICE_MOVED: statusCode.failedPrecondition,
  E_IMAGE_CORRUPT: statusCode.failedPrecondition,
  E_IMAGE_UNSEALED: statusCode.failedPrecondition,
  // Not "not found": containerd takes that for a container which is gone.
  E_IMAGE_MISSING: statusCode.failedPrecondition,
  E_IMAGE_VERSION: statusCode.failedPrecondition,
  E_UNSUPPORTED_STATE: statusCode.failedPrecondition,
  E_GPU_IO: statusCode.internal,
  E_PROTOCOL: statusCode.internal,
  E_CANCELLED: statusCode.internal,
  E_TIMEOUT: statusCode.deadlineExceeded,
  E_IO: statusCode.internal,
  E_CONFIG: statusCode.failedPrecondition,
  E_NATIVE: statusCode.failedPrecondition,
  E_HOST: statusCode.failedPrecondition,
  E_USAGE: statusCode.invalidArgument,
  E_NOT_FOUND: statusCode.failedPrecondition,
  E_INTERNAL: statusCode.internal,
} as const satisfies Record<ErrorCode, number>;

export function responseFor({ code, message, hint }: KfdError): Response {
  const whole = `kfd-checkpoint: ${code}: ${message}${hint === undefined ? '' : ` (${hint})`}`;
  return { code: statuses[code], message: whole, payload: Buffer.alloc(0) };
}
