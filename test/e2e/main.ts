/** All scenarios of this guest, in one process: starting Node is slow in the guest. Prints TAP. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { run } from './support/command.js';
import { onNextKernel, showRelease } from './support/gpu.js';
import { calmScheduler, loadImage } from './support/guest.js';
import { install } from './support/product.js';

calmScheduler();
const [manager] = await Promise.all([
  run('podman', 'info', '-f', '{{.Host.CgroupManager}}'),
  loadImage(),
  install(),
  showRelease(),
]);

/** Where podman makes cgroups by itself: crun sets a restored container's device rules after CRIU. */
const plainParts = [
  'round-trip',
  'several',
  'in-place',
  'leave-running',
  'without-gpu',
  'render-nodes',
  'refusals',
  'cannot-restore',
  'faults',
  'containerd',
];
/** What takes too long for `npm test`; with the word `all`, too. */
const moreParts = [
  'chips',
  'pre-checkpoint',
  'image',
  'layers',
  'many',
  'contents',
  'held',
  'large',
  'compressed',
  'nodes',
  'wrong-buffer',
  'other-cpu',
  'killed',
  'pressure',
  'failing-gpu',
  'selftest',
  'spare',
  'migrate',
  'ci',
];
/** Where it is asked for by name: it takes many minutes, and two releases of containerd. */
const longParts = ['containerd-life', 'containerd-move'];
/** Where systemd makes them, device rules included, before CRIU: what depends on those rules. */
const systemdParts = ['several', 'other-gpu'];

/** On the kernel that follows, where ROCr's save areas are SVM ranges. */
const nextKernelParts = ['round-trip', 'several', 'chips', 'in-place'];

const underSystemd = existsSync('/run/systemd/system');
assert.equal(manager, underSystemd ? 'systemd' : 'cgroupfs');

const wanted = process.argv.slice(2).filter((word) => !word.startsWith('--'));
const usual = onNextKernel ? nextKernelParts : plainParts;
const ours = underSystemd ? systemdParts : usual;
const named = wanted.includes('all') ? [...plainParts, ...moreParts] : wanted;
for (const part of new Set([...plainParts, ...moreParts, ...systemdParts, ...longParts])) {
  if ((named.length === 0 ? ours : named).includes(part)) await import(`./${part}.js`);
}
