/**
 * The part of the precreate hook for containers with `/dev/kfd`. It reads a spec and prints it with
 * annotations. `hooks/precreate` starts it, and prints the original spec when this program fails or
 * prints anything else. It reads and writes without streams, because streams would double the
 * instructions beyond the start of Node.js (callgrind, Node.js 20).
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { readHost } from '../src/gpu/host.js';
import { annotateSpec } from '../src/runtime/annotate.js';
import { readCdi } from '../src/runtime/cdi.js';
import { version } from '../src/version.js';

async function main(): Promise<void> {
  const spec = readFileSync(0, 'utf8');
  const annotated = annotateSpec(spec, await readHost(), await readCdi(), version);
  // trimEnd, because the last line must follow the closing brace directly.
  writeFileSync(1, `${annotated.trimEnd()}\n#kfd-checkpoint: end of spec\n`);
}

void main();
