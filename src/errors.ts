/** Errors. Everything that this project throws on purpose is a `KfdError`. Callers switch on `code`, never on text. */

/** The kind of a failure. The build fails until `exitCodes` has an entry for a new code. */
export type ErrorCode =
  /** The host, or the container, has no usable AMD GPU. */
  | 'E_NO_GPU'
  /** The GPUs of this host do not fit the image. */
  | 'E_GPU_MISMATCH'
  /** Not enough free VRAM. */
  | 'E_VRAM'
  /** Another process has a place for an SDMA queue that the image needs. */
  | 'E_SDMA_SLOT'
  /** Another kernel release, amdgpu driver or KFD interface version: the opaque state is bound to it. */
  | 'E_KERNEL_MISMATCH'
  /** The CPU lacks what the recorded one had. */
  | 'E_CPU_MISMATCH'
  /** The GPU is on this host, but under other device numbers. */
  | 'E_DEVICE_MOVED'
  /** Bytes of the image or archive do not match their checksum or format. */
  | 'E_IMAGE_CORRUPT'
  /** State files without a sealed manifest: the checkpoint was never finished. */
  | 'E_IMAGE_UNSEALED'
  /** The image, or a file it names, is not there. */
  | 'E_IMAGE_MISSING'
  /** Well formed, but written for a newer reader than this one. */
  | 'E_IMAGE_VERSION'
  /** The process holds GPU state that cannot be saved or restored (yet). */
  | 'E_UNSUPPORTED_STATE'
  /** A KFD, DRM or copy-engine call failed. */
  | 'E_GPU_IO'
  /** The peer on a socket broke the contract. */
  | 'E_PROTOCOL'
  /** Asked to stop. */
  | 'E_CANCELLED'
  /** Asked to stop work that can no longer be stopped. */
  | 'E_TOO_LATE'
  /** A deadline passed. */
  | 'E_TIMEOUT'
  /** A system call failed. */
  | 'E_IO'
  /** Our configuration, or a file we have to edit, is not usable as it is. */
  | 'E_CONFIG'
  /** The native addon cannot be loaded. */
  | 'E_NATIVE'
  /** A host check failed. */
  | 'E_HOST'
  /** The command line is wrong. */
  | 'E_USAGE'
  /** A path the user named does not exist. */
  | 'E_NOT_FOUND'
  /** A bug of ours. */
  | 'E_INTERNAL';

export interface KfdErrorOptions {
  /** What to do next, one sentence for a human. */
  readonly hint?: string;
  readonly cause?: unknown;
  /** Facts for logs and JSON output; plain data only. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** `message` reads "<subject>: <reason>", lower case, no full stop. */
export class KfdError extends Error {
  override readonly name = 'KfdError';
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, options: KfdErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.hint = options.hint;
    this.details = options.details;
  }
}

/**
 * Exit codes of the command line; documented and stable. 0 ok, 1 failure, 2 usage, 3 host not able,
 * 4 not found, 5 incompatible or corrupt archive, 6 timeout.
 */
export const exitCodes = {
  E_NO_GPU: 3,
  E_GPU_MISMATCH: 5,
  E_VRAM: 3,
  E_SDMA_SLOT: 3,
  E_KERNEL_MISMATCH: 5,
  E_CPU_MISMATCH: 5,
  E_DEVICE_MOVED: 5,
  E_IMAGE_CORRUPT: 5,
  E_IMAGE_UNSEALED: 5,
  E_IMAGE_MISSING: 4,
  E_IMAGE_VERSION: 5,
  E_UNSUPPORTED_STATE: 1,
  E_GPU_IO: 1,
  E_PROTOCOL: 1,
  E_CANCELLED: 1,
  E_TOO_LATE: 1,
  E_TIMEOUT: 6,
  E_IO: 1,
  E_CONFIG: 1,
  E_NATIVE: 3,
  E_HOST: 3,
  E_USAGE: 2,
  E_NOT_FOUND: 4,
  E_INTERNAL: 1,
} as const satisfies Record<ErrorCode, number>;

function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** True for "no such file or directory", also when a component of the path is not a directory. */
export function isMissing(error: unknown): boolean {
  const code = errnoOf(error);
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/** True for a link or a rename that would leave its file system, or its mount. */
export function isOtherMount(error: unknown): boolean {
  return errnoOf(error) === 'EXDEV';
}

/** True when the file system refuses writing: read-only, or no permission. */
export function isReadOnly(error: unknown): boolean {
  const code = errnoOf(error);
  return code === 'EROFS' || code === 'EACCES' || code === 'EPERM';
}

/**
 * Any caught error as a `KfdError`: unchanged if it is one, E_IO for an errno of Node, E_INTERNAL for the rest.
 * `subject` starts the message.
 */
export function asKfdError(error: unknown, subject: string): KfdError {
  if (error instanceof KfdError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  const errno = errnoOf(error);
  if (errno !== undefined && /^E[A-Z0-9]+$/.test(errno)) {
    return new KfdError('E_IO', `${subject}: ${reason}`, { cause: error, details: { errno } });
  }
  return new KfdError('E_INTERNAL', `${subject}: ${reason}`, { cause: error });
}

/** An error and its causes as plain data, at most five deep. */
export function describeError(error: unknown, depth = 0): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: String(error) };
  const described: Record<string, unknown> = { message: error.message };
  if ('code' in error && error.code !== undefined) described['code'] = error.code;
  if (error instanceof KfdError) {
    if (error.hint !== undefined) described['hint'] = error.hint;
    if (error.details !== undefined) described['details'] = error.details;
  } else {
    described['stack'] = error.stack;
  }
  if (error.cause !== undefined && depth < 5) {
    described['cause'] = describeError(error.cause, depth + 1);
  }
  return described;
}

/** Replaces control characters, because text of others must not control a terminal or forge a line of a log. */
export function printable(text: string): string {
  return text.replace(/\p{C}/gu, '?');
}
