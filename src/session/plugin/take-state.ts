/** A state that the plugin has sent. */

import { fstatSync, readFileSync } from 'node:fs';
import { KfdError } from '../../errors.js';
import { manifestLimits } from '../../manifest/schema.js';
import type { Descriptor } from '../../native.js';

/**
 * Reads a sealed memfd and closes it. Throws E_UNSUPPORTED_STATE for more bytes than a restore accepts: the process can
 * still continue.
 */
export function takeState(memfd: Descriptor, maxBytes: number = manifestLimits.stateBytes): Buffer {
  try {
    const { size } = fstatSync(memfd.fd);
    if (size > maxBytes) {
      const reason = `GPU state: ${size} bytes in one process, and ${maxBytes} is the most`;
      throw new KfdError('E_UNSUPPORTED_STATE', reason);
    }
    return readFileSync(`/proc/self/fd/${memfd.fd}`);
  } finally {
    memfd.close();
  }
}
