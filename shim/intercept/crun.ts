/** crun instead of runc behind the stock shim, which calls every OCI runtime with the options of runc. */

import { basename } from 'node:path';
import { type Response, statusCode } from '../../src/ttrpc/envelope.js';

/** `binary`: name or path of the OCI runtime in the options of Create. Empty: the stock shim's default, runc. */
export function isCrun(binary: string): boolean {
  return basename(binary) === 'crun';
}

/**
 * For a container with a GPU. crun 1.21 fails each restore with "unrecognized option", so a checkpoint
 * would be of no use and is refused too.
 */
export const crunRefusal: Response = {
  code: statusCode.failedPrecondition,
  message:
    'kfd-checkpoint: E_UNSUPPORTED_STATE: containerd cannot restore what crun runs: ' +
    'it calls crun with restore --no-subreaper, an option that only runc has ' +
    '(set runc in the options of the runtime)',
  payload: Buffer.alloc(0),
};
