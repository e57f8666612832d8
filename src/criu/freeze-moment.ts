/**
 * The moment from which on a container stands still for its checkpoint, as the session knows it: CRIU has stopped the
 * tree, and the plugin has looked for its GPU processes. The session tells it to the command that has asked for the
 * checkpoint, by a file in that command's folder (command-folder.ts). Both have the same clock: CLOCK_MONOTONIC, which
 * process.hrtime and performance.now read.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const fileName = 'frozen';

/** In the session. A command that has gone, or has no room, does not stop the checkpoint. */
export function tellFreeze(folder: string): void {
  try {
    writeFileSync(join(folder, fileName), `${process.hrtime.bigint()}\n`, {
      flag: 'wx',
      mode: 0o600,
    });
  } catch {
    // Nobody waits for it: the command counts from an earlier moment.
  }
}

/** In the command: milliseconds of its performance.now(). undefined: nobody has told it. */
export function freezeTold(folder: string): number | undefined {
  let text: string;
  try {
    text = readFileSync(join(folder, fileName), 'utf8');
  } catch {
    return undefined;
  }
  if (!/^\d{1,19}\n$/.test(text)) return undefined;
  const ago = Number(process.hrtime.bigint() - BigInt(text.trim())) / 1e6;
  return ago < 0 ? undefined : performance.now() - ago;
}
