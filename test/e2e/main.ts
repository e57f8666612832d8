/** All scenarios, in one process: starting Node is slow in the guest. Prints TAP. */

import { run } from './support/command.js';
import { install } from './support/product.js';

const image = '/repo/build/lab/programs/image.tar';
await Promise.all([install(), run('podman', 'load', '-q', '-i', image)]);

const wanted = process.argv.slice(2).filter((word) => !word.startsWith('--'));
for (const part of [
  'round-trip',
  'several',
  'in-place',
  'leave-running',
  'held',
  'large',
  'without-gpu',
  'render-nodes',
  'refusals',
  'cannot-restore',
  'other-gpu',
  'killed',
]) {
  if (wanted.length === 0 || wanted.includes(part)) await import(`./${part}.js`);
}
