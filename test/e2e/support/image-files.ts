/** Our files in a container's image folder. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Container } from './container.js';

/** Names of ours in the folder, temporary ones too. */
export function imageFiles(image: string): string[] {
  const names = existsSync(image) ? readdirSync(image) : [];
  return names.filter((name) => /^\.?(kfd|amdgpu|render-state)-/.test(name));
}

/** Files of a failed checkpoint would travel with the next image taken there, or be restored. */
export function assertNoImageFiles(job: Container): void {
  assert.deepEqual(imageFiles(join(job.bundle, 'checkpoint')), []);
}
