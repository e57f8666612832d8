/** Folders of the repository. */

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Relative to dist/src/bundle. */
export const repository = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '');
/** The output of tsc. */
export const dist = join(repository, 'dist');
