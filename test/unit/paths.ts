/** Where fixtures are, and temporary folders that go away with the test. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

/** The repository, seen from dist/test/unit. */
export const repository = fileURLToPath(new URL('../../../', import.meta.url));
export const fixtures = join(repository, 'test/fixtures');

export async function temporaryFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kfd-unit-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
