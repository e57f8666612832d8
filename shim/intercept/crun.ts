/** crun in runc's place behind the stock shim, which calls every OCI runtime as it calls runc. */

import { basename } from 'node:path';
import { type Response, statusCode } from '../transport/envelope.js';

/** Of the OCI runtime's name or path, as the options of Create have it; empty: the stock shim's own, runc. */
export function isCrun(binary: string): boolean {
  return basename(binary) === 'crun';
}

/** For a container with a GPU: crun 1.21 ends a restore with "unrecognized option", and what cannot come back is not saved either. */
export const crunRefusal: Response = {
  code: statusCode.failedPrecondition,
  message:
    'kfd-checkpoint: E_UNSUPPORTED_STATE: containerd cannot restore what crun runs: it calls crun with an option of runc that crun does not have, restore --no-subreaper (have the options of the runtime name runc)',
  payload: Buffer.alloc(0),
};
