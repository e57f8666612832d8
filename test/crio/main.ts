/** Pods of a real CRI-O, which `npm run test:crio` runs in a guest. Prints TAP. */

import { mkdirSync } from 'node:fs';
import { run } from '../e2e/support/command.js';
import { calmScheduler, loadImage } from '../e2e/support/guest.js';
import { load } from '../e2e/support/part.js';
import { install } from '../e2e/support/product.js';
import { releases } from '../e2e/support/releases.js';
import { daemonLogs } from '../kubelet/support/daemon.js';
import { program } from './support/crio.js';

calmScheduler();
mkdirSync(daemonLogs, { recursive: true });
const [releasesHere, crio] = await Promise.all([
  releases(),
  run(program, '--version'),
  loadImage(),
  install(),
]);
const { system, kernel, driver, crun, runc, criu } = releasesHere;
const version = /^crio version (\S+)/m.exec(crio)?.[1] ?? crio;
const all = { system, kernel, driver, crun, runc, criu, 'cri-o': version };
console.log(
  `# with ${Object.entries(all)
    .map((pair) => pair.join(' '))
    .join(', ')}`,
);
for (const part of ['pods', 'kubelet']) await load(part, 'crio');
