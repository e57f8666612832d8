/** Copies a sysfs fixture so that a test can bend single attributes. */

import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { fixtures, temporaryFolder } from './paths.js';

/** `changes`: path below the root to new text, or null to remove it. */
export async function bentHost(
  t: TestContext,
  name: string,
  changes: Readonly<Record<string, string | null>>,
): Promise<string> {
  const root = join(await temporaryFolder(t), 'root');
  await cp(join(fixtures, 'sysfs', name), root, { recursive: true, verbatimSymlinks: true });
  for (const [path, text] of Object.entries(changes)) {
    const target = join(root, path);
    if (text === null) {
      await rm(target, { recursive: true });
    } else {
      await mkdir(dirname(target), { recursive: true });
      await writeFile(target, text);
    }
  }
  return root;
}
