/** Stage queues: a program on the kernel's own calls, with memory of every kind, queues and events. */

import type { Bench } from '../bench.js';
import { assertWentOn } from '../control.js';
import type { Stage, StageWork } from '../stage.js';
import { Worker } from '../worker.js';

/** Times that everything is compared and changed. */
const looks = 3;

export function queuesStage(bench: Bench): Stage {
  return { name: 'queues', usesGpu: true, run: (work) => tryQueues(bench, work) };
}

async function tryQueues(bench: Bench, work: StageWork): Promise<void> {
  const began = performance.now();
  const [worker, ready] = await Worker.start(bench, work);
  work.step({ name: 'set up', us: since(began), note: ready.parts.join(', ') });
  let last = ready;
  for (let look = 1; look <= looks; look++) {
    const from = performance.now();
    const state = await worker.control.ask('verify');
    assertWentOn(last, state, worker.gpus);
    work.step({ name: `compared ${look} of ${looks}`, us: since(from) });
    last = state;
  }
  await worker.control.ask('exit');
}

export const since = (began: number) => Math.round((performance.now() - began) * 1000);
