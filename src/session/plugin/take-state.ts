/** A state that the plugin has sent. */

import { fstatSync, readFileSync } from 'node:fs';
import { KfdError } from '../../errors.js';
import { manifestLimits } from '../../manifest/schema.js';
import type { Descriptor } from '../../native.js';

/**
 * What a sealed memfd holds; closes it. Throws E_UNSUPPORTED_STATE for more than a restore would take: that is found
 * while the process can go on.
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
