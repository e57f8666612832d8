/** Errors as statuses of gRPC and ttrpc, which have the same numbers. */

import type { ErrorCode } from './errors.js';

/** Numbers of google.rpc.Code that are used here. */
export const statusCode = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
} as const;

export const statusOf = {
  E_NO_GPU: statusCode.failedPrecondition,
  E_GPU_MISMATCH: statusCode.failedPrecondition,
  E_VRAM: statusCode.failedPrecondition,
  E_SDMA_SLOT: statusCode.failedPrecondition,
  E_KERNEL_MISMATCH: statusCode.failedPrecondition,
  E_CPU_MISMATCH: statusCode.failedPrecondition,
  E_DEVICE_MOVED: statusCode.failedPrecondition,
  E_IMAGE_CORRUPT: statusCode.failedPrecondition,
  E_IMAGE_UNSEALED: statusCode.failedPrecondition,
  // Not "not found": for containerd that means a container that has ended.
  E_IMAGE_MISSING: statusCode.failedPrecondition,
  E_IMAGE_VERSION: statusCode.failedPrecondition,
  E_UNSUPPORTED_STATE: statusCode.failedPrecondition,
  E_GPU_IO: statusCode.internal,
  E_PROTOCOL: statusCode.internal,
  E_CANCELLED: statusCode.internal,
  E_TOO_LATE: statusCode.failedPrecondition,
  E_TIMEOUT: statusCode.deadlineExceeded,
  E_IO: statusCode.internal,
  E_CONFIG: statusCode.failedPrecondition,
  E_NATIVE: statusCode.failedPrecondition,
  E_HOST: statusCode.failedPrecondition,
  E_USAGE: statusCode.invalidArgument,
  E_NOT_FOUND: statusCode.failedPrecondition,
  E_INTERNAL: statusCode.internal,
} as const satisfies Record<ErrorCode, number>;
