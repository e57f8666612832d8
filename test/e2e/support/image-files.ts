/** Our files in a container's image folder. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Container } from './container.js';

/** Files of a failed checkpoint would travel with the next image taken there, or be restored. */
export function assertNoImageFiles(job: Container): void {
  const image = join(job.bundle, 'checkpoint');
  const left = existsSync(image) ? readdirSync(image) : [];
  assert.deepEqual(
    left.filter((name) => /^\.?(kfd|amdgpu|render-state)-/.test(name)),
    [],
  );
}
