/** Pods of a real kubelet, which `npm run test:kubelet` runs in a guest. Prints TAP. */

import { mkdirSync } from 'node:fs';
import { run } from '../e2e/support/command.js';
import { haveNextRelease, nextRelease } from '../e2e/support/containerd.js';
import { calmScheduler } from '../e2e/support/guest.js';
import { load } from '../e2e/support/part.js';
import { install } from '../e2e/support/product.js';
import { releases, useGivenContainerd } from '../e2e/support/releases.js';
import { binary } from './support/binaries.js';
import { daemonLogs } from './support/daemon.js';

if (!haveNextRelease) throw new Error('this guest has no containerd that can make checkpoints');
calmScheduler();
mkdirSync(daemonLogs, { recursive: true });
if (process.argv.includes('--given-containerd')) await useGivenContainerd();
const [releasesHere, kubelet, containerd] = await Promise.all([
  releases(),
  run(binary('kubelet'), '--version'),
  run(`${nextRelease}/containerd`, '--version'),
  install(),
]);
const { system, kernel, driver, criu } = releasesHere;
const version = /\bv?(\d+\.\d+\.\d+\S*)/.exec(containerd)?.[1] ?? containerd;
const all = { system, kernel, driver, criu, containerd: version, kubelet: kubelet.split(' v')[1] };
console.log(
  `# with ${Object.entries(all)
    .map((pair) => pair.join(' '))
    .join(', ')}`,
);

// As the last one: after it containerd 2.1.9 does not find the test image by its name, although it has that name.
const parts = [
  'checkpoint',
  'time-out',
  'interrupted',
  'cluster',
  'other-node',
  'daemon-set',
  'as-image',
];
const wanted = process.argv.slice(2).filter((word) => !word.startsWith('--'));
for (const part of parts) {
  if (wanted.length === 0 || wanted.includes(part)) await load(part, 'kubelet');
}
