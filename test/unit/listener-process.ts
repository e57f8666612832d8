/** A session's socket for the launcher in a process of its own: prints "ready", then what is delivered, as JSON. */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { native } from '../../src/native.js';

const folder = `/run/kfd-checkpoint/${process.pid}`;
mkdirSync(folder, { recursive: true });
new (native().Listener)(join(folder, 'sock'), (delivery) => {
  process.stdout.write(`${JSON.stringify(delivery)}\n`);
});
process.stdout.write('ready\n');
