/**
 * The part of the precreate hook that runs for containers with `/dev/kfd`: spec in, annotated spec
 * out. `hooks/precreate` starts it and prints the original whenever this fails or says anything else.
 */

import { readHost } from '../src/gpu/host.js';
import { annotateSpec } from '../src/runtime/annotate.js';
import { version } from '../src/version.js';

const chunks: Buffer[] = [];
for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
const spec = Buffer.concat(chunks).toString('utf8');
const annotated = annotateSpec(spec, await readHost(), version);
// trimEnd: the line that ends the output has to follow the closing brace.
process.stdout.write(`${annotated.trimEnd()}\n#kfd-checkpoint: end of spec\n`);
