/** Stage queues: a program on the kernel's own calls, with memory of every kind, queues and events. */

import type { Bench } from '../bench.js';
import { TestProgram } from '../program.js';
import { type Stage, type StageWork, since } from '../stage.js';

/** Times that everything is compared and changed. */
const looks = 3;

export function queuesStage(bench: Bench): Stage {
  return { name: 'queues', usesGpu: true, run: (work) => tryQueues(bench, work) };
}

async function tryQueues(bench: Bench, work: StageWork): Promise<void> {
  const began = performance.now();
  const [program, ready] = await TestProgram.start(bench, work, { child: true });
  work.step({ name: 'set up', us: since(began), note: ready.parts.join(', ') });
  let last = ready;
  for (let look = 1; look <= looks; look++) {
    const from = performance.now();
    last = await program.control.verified(last, program.gpus);
    work.step({ name: `worked and compared ${look} of ${looks}`, us: since(from) });
  }
  await program.control.ask('exit');
}
