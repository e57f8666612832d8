/** An image directory with GPU state of ours. */

import { readdirSync } from 'node:fs';
import { imageFilePattern, manifestName } from '../../src/manifest/names.js';

/** False where it cannot be read: the stock shim says why. */
export function hasOurImage(directory: string): boolean {
  try {
    return readdirSync(directory).some(
      (name) => name === manifestName || imageFilePattern.test(name),
    );
  } catch {
    return false;
  }
}
