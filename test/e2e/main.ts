/** All scenarios of this guest, in one process: starting Node is slow in the guest. Prints TAP. */

import assert from 'node:assert/strict';
import { run } from './support/command.js';
import { onNextKernel, showRelease } from './support/gpu.js';
import { calmScheduler, loadImage, underSystemd } from './support/guest.js';
import { load } from './support/part.js';
import { install } from './support/product.js';
import { earlierCrun, releases, useGivenContainerd, useNextCriu } from './support/releases.js';

calmScheduler();
const wanted = process.argv.slice(2).filter((word) => !word.startsWith('--'));
if (process.argv.includes('--next-criu')) await useNextCriu();
if (process.argv.includes('--given-containerd')) await useGivenContainerd();
const [manager, releasesHere] = await Promise.all([
  run('podman', 'info', '-f', '{{.Host.CgroupManager}}'),
  releases(),
  loadImage(),
  install(),
  showRelease(),
]);

// A comment of TAP, which test/tap.sh and test/support/runs.ts look for.
const withAll = Object.entries({ ...releasesHere, cgroups: manager });
console.log(`# with ${withAll.map((pair) => pair.join(' ')).join(', ')}`);

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
  'ranks',
  'chips',
  'pre-checkpoint',
  'image',
  'layers',
  'signed',
  'many',
  'contents',
  'held',
  'large',
  'compressed',
  'nodes',
  'cdi',
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
/** Where the guest has two releases of crun; with the word `all`, too. */
const crunParts = earlierCrun === undefined ? [] : ['earlier-crun'];
/** Where it is asked for by name: it takes many minutes, and two releases of containerd. */
const longParts = ['containerd-life', 'containerd-move'];
/** Where systemd makes them, device rules included, before CRIU: what depends on those rules. */
const systemdParts = ['several', 'other-gpu'];

/** On the kernel that follows, where ROCr's save areas are SVM ranges. */
const nextKernelParts = ['round-trip', 'several', 'chips', 'in-place'];

assert.equal(manager, underSystemd ? 'systemd' : 'cgroupfs');

const usual = onNextKernel ? nextKernelParts : plainParts;
const ours = underSystemd ? systemdParts : usual;
const named = wanted.includes('all') ? [...plainParts, ...moreParts, ...crunParts] : wanted;
const known = [...plainParts, ...moreParts, ...crunParts, ...systemdParts, ...longParts];
for (const part of new Set(known)) {
  if ((named.length === 0 ? ours : named).includes(part)) await load(part);
}
