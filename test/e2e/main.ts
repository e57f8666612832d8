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
  'chips',
  'in-place',
  'leave-running',
  'held',
  'large',
  'compressed',
  'without-gpu',
  'render-nodes',
  'nodes',
  'refusals',
  'wrong-buffer',
  'cannot-restore',
  'other-cpu',
  'killed',
  'faults',
  'pressure',
  'failing-gpu',
  'containerd',
];
/** Where it is asked for by name: it takes many minutes. */
const longParts = ['containerd-life'];
/** Where systemd makes them, device rules included, before CRIU: what depends on those rules. */
const systemdParts = ['several', 'other-gpu'];

/** On the kernel that follows, where ROCr's save areas are SVM ranges. */
const nextKernelParts = ['round-trip', 'several', 'chips', 'in-place'];

const underSystemd = existsSync('/run/systemd/system');
assert.equal(manager, underSystemd ? 'systemd' : 'cgroupfs');

const wanted = process.argv.slice(2).filter((word) => !word.startsWith('--'));
const usual = onNextKernel ? nextKernelParts : plainParts;
const ours = underSystemd ? systemdParts : usual;
for (const part of new Set([...plainParts, ...systemdParts, ...longParts])) {
  if ((wanted.length === 0 ? ours : wanted).includes(part)) await import(`./${part}.js`);
}
