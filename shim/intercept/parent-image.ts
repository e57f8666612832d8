/** A checkpoint with a parent: an image beside it has the memory of a moment ago, and this one what has changed. */

import { join } from 'node:path';
import { readTextIfAny, replaceFile } from '../../src/os/files.js';
import { criuConfigFile, parentImage } from '../../src/runtime/shim-names.js';

/** runc gives CRIU no parent when the stock shim calls it. CRIU's configuration comes before runc's words. */
const lines = `prev-images-dir ${parentImage}\ntrack-mem\n`;

/**
 * Calls `work` while CRIU's configuration of the container names the parent. `report` gets what goes wrong: the image
 * has all memory then, as it has for a container with another configuration than ours. Rejects as `work`.
 */
export async function withParentImage<T>(
  bundle: string,
  report: (error: unknown) => void,
  work: () => Promise<T>,
): Promise<T> {
  const config = join(bundle, criuConfigFile);
  let text: string | undefined;
  try {
    text = (await readTextIfAny(config))?.replaceAll(lines, '');
    if (text !== undefined) await replaceFile(config, text + lines);
  } catch (error) {
    report(error);
  }
  try {
    return await work();
  } finally {
    if (text !== undefined) await replaceFile(config, text).catch(report);
  }
}
