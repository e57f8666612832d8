/**
 * The part of the precreate hook that runs for containers with `/dev/kfd`: spec in, annotated spec
 * out. `hooks/precreate` starts it and prints the original whenever this fails or says anything else.
 * Both pipes are read and written at once and whole: streams would double the
 * instructions this takes beyond those of Node.js itself (callgrind, Node.js 20).
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { readHost } from '../src/gpu/host.js';
import { annotateSpec } from '../src/runtime/annotate.js';
import { version } from '../src/version.js';

async function main(): Promise<void> {
  const spec = readFileSync(0, 'utf8');
  const annotated = annotateSpec(spec, await readHost(), version);
  // trimEnd: the line that ends the output has to follow the closing brace.
  writeFileSync(1, `${annotated.trimEnd()}\n#kfd-checkpoint: end of spec\n`);
}

void main();
