/** The verdict of the demo of a migration; exit status 0 only when all of it was seen. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const [share = '.', ...flags] = process.argv.slice(2);

function read<T>(name: string): T {
  return JSON.parse(readFileSync(join(share, name), 'utf8')) as T;
}

const seen = read<Record<string, string>>('move.json');
const moved = read<{
  bytes: number;
  downtime_ms: number;
  parts_ms: Readonly<Record<string, number>>;
}>('migrate.json');
const [gpuHere, gpuThere] = (seen['gpu_ids'] ?? '').split(' ');

const claims: readonly (readonly [string, boolean])[] = [
  [
    'a barrier was pending, and VRAM changed all the while',
    / barrier=pending/.test(seen['ready'] ?? ''),
  ],
  ['the second machine is another boot', seen['boot_id'] !== seen['other_boot_id']],
  ['its GPU has another number', gpuHere !== gpuThere],
  ['the container is gone on the first', seen['here'] === 'gone'],
  ['it runs on the second', seen['there'] === 'running'],
  ['the pending barrier completed', / barrier=completed/.test(seen['answer'] ?? '')],
  ['all of VRAM matches', /^verified bytes=134217728 /.test(seen['answer'] ?? '')],
];
const verified = claims.every(([, isSeen]) => isSeen);
const parts = Object.entries(moved.parts_ms).map(([name, ms]) => `${name} ${Math.round(ms)}`);
const report = [
  'kfd-checkpoint demo of a migration: two emulated machines, ssh, real driver, simulated GPUs',
  ...claims.map(([claim, isSeen]) => `  ${isSeen ? 'seen    ' : 'NOT SEEN'}  ${claim}`),
  `  ${(moved.bytes / 2 ** 20).toFixed(1)} MiB were sent`,
  `  the container stood still ${Math.round(moved.downtime_ms)} ms: ${parts.join(', ')}`,
  verified ? 'verified (real driver, simulated GPU)' : 'NOT VERIFIED',
];
const json = flags.includes('--json');
(json ? process.stderr : process.stdout).write(`${report.join('\n')}\n`);
if (json) process.stdout.write(`${JSON.stringify({ verified, ...moved })}\n`);
process.exitCode = verified ? 0 : 1;
