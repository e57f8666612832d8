/** Everything that a verb needs from outside. Tests bring their own. */

import type { CopyTrialOptions, CopyTrialResult, Native, PauseTrialResult } from '../addon.js';
import type { FlattenPages } from '../archive/flatten.js';
import type { StoreMaker } from '../archive/stores.js';
import type { ImageVerifier, ZstdDecoderFactory } from '../archive/verifier.js';
import type { ListPages } from '../manifest/ancestors.js';
import type { ForwardFile } from '../migrate/arriving-task.js';
import type { ReceiveFile, SendFile, Unpack } from '../migrate/contents.js';
import type { Run, RunThrough } from '../os/exec.js';

export interface CommandContext {
  /** Results, to standard output. */
  readonly out: (text: string) => void;
  /** Progress, warnings and errors, to standard error. */
  readonly err: (text: string) => void;
  /** Whether standard error is a terminal that can redraw a line. */
  readonly isTerminal: boolean;
  /** Width of that terminal at this moment; 0 or undefined: it does not know. */
  readonly columns: () => number | undefined;
  readonly run: Run;
  readonly runThrough: RunThrough;
  /** Folder of this installation, without a trailing slash. */
  readonly prefix: string;
  readonly native: NativeServices;
  /** Why this process is not root of the host, such as "runs as user 1000"; undefined: it is. Throws Node's error. */
  readonly whyNotRoot: () => Promise<string | undefined>;
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
  /** Asks a question that is answered by yes or no; undefined: nobody is there to answer. */
  readonly ask?: ((question: string) => Promise<boolean>) | undefined;
}

/** Functions of the addon. Each throws E_NATIVE when the addon cannot be loaded. */
export interface NativeServices {
  readonly verifier: () => ImageVerifier;
  readonly zstdDecoder: ZstdDecoderFactory;
  readonly listPages: ListPages;
  /** A function for the pages files of one image. */
  readonly imageFlattener: () => FlattenPages;
  /** `signal` cancels what it does. */
  readonly storeMaker: (signal: AbortSignal) => StoreMaker;
  /** Rejects with E_IMAGE_CORRUPT, E_UNSUPPORTED_STATE beyond the limits, E_IO. */
  readonly unpackContents: Unpack;
  readonly sendFile: SendFile;
  /** Rejects with E_IMAGE_CORRUPT, E_UNSUPPORTED_STATE beyond the limit, E_IO. */
  readonly receiveFile: ReceiveFile;
  /** As receiveFile. */
  readonly forwardFile: ForwardFile;
  /** "major.minor" of AMDKFD_IOC_GET_VERSION. Throws E_IO or E_GPU_IO without a usable KFD. */
  readonly kfdVersion: () => string;
  /** Bytes that XSAVE writes at most; undefined without XSAVE. */
  readonly xsaveBytes: () => number | undefined;
  /** Asks the kernel. Throws E_NATIVE, E_IO. */
  readonly kfdRestoreTakes: Native['kfdRestoreTakes'];
  /** Rejects with E_GPU_IO, E_IO, and E_CANCELLED after `signal`. */
  readonly tryCopies: (options: CopyTrialOptions, signal: AbortSignal) => Promise<CopyTrialResult>;
  /** Rejects with E_GPU_IO, E_IO, E_UNSUPPORTED_STATE. */
  readonly tryPauses: (pid: number, times: number) => Promise<PauseTrialResult>;
}
