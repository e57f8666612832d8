/**
 * What stands in the place of src/stages.ts in the test build. A file SIDE.POINT in the folder holds whoever comes to
 * that point, until the file is gone; SIDE.POINT.reached then has the pid. native/stages/stage.cc is the same for
 * native programs. Nothing else of the process's JavaScript runs meanwhile, as if it stood still.
 */

import { existsSync, writeFileSync } from 'node:fs';

const folder = '/run/kfd-checkpoint-stages';
const stepMs = 10;
const limitMs = 120_000;

export function stage(side: string, point: string): void {
  const file = `${folder}/${side}.${point}`;
  if (!existsSync(file)) return;
  writeFileSync(`${file}.reached`, String(process.pid));
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  const deadline = performance.now() + limitMs;
  while (existsSync(file) && performance.now() < deadline) Atomics.wait(sleeper, 0, 0, stepMs);
}
