/** Where things are in the repository. */

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Seen from dist/src/bundle. */
export const repository = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '');
/** What tsc makes. */
export const dist = join(repository, 'dist');
