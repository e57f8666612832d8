/** All scenarios of this guest, in one process: starting Node is slow in the guest. Prints TAP. */

import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { run } from './support/command.js';
import { onNextKernel, showRelease } from './support/gpu.js';
import { install } from './support/product.js';

// Under emulation a task that is switched to finds none of its translated code: to wait for its turn costs it less.
writeFileSync('/sys/kernel/debug/sched/base_slice_ns', '20000000');
writeFileSync('/sys/kernel/debug/sched/features', 'NO_WAKEUP_PREEMPTION');

const image = '/repo/build/lab/programs/image.tar';
const [manager] = await Promise.all([
  run('podman', 'info', '-f', '{{.Host.CgroupManager}}'),
  run('podman', 'load', '-q', '-i', image),
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
