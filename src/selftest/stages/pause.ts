/** Stage pause: the queues of a process that works are stopped and run again, a hundred times. */

import type { PauseTrialResult } from '../../addon.js';
import type { Bench } from '../bench.js';
import type { Stage, StageWork } from '../stage.js';
import { Worker } from '../worker.js';

export interface PauseStageOptions {
  readonly bench: Bench;
  /** Pauses the process `times` times. Rejects with E_GPU_IO, E_IO. */
  readonly tryPauses: (pid: number, times: number) => Promise<PauseTrialResult>;
}

/** After each of the rounds the queues must have gone on. */
const rounds = 10;
const pausesOfARound = 10;

export function pauseStage(options: PauseStageOptions): Stage {
  return { name: 'pause', usesGpu: true, run: (work) => tryPausing(options, work) };
}

async function tryPausing({ bench, tryPauses }: PauseStageOptions, work: StageWork): Promise<void> {
  const [worker, ready] = await Worker.start(bench, work);
  let last = ready;
  const trials: PauseTrialResult[] = [];
  for (let round = 0; round < rounds; round++) {
    work.signal.throwIfAborted();
    trials.push(await tryPauses(worker.pid, pausesOfARound));
    last = await worker.control.goneOn(last, worker.gpus);
  }
  const count = rounds * pausesOfARound;
  const sum = (of: (trial: PauseTrialResult) => number) =>
    Math.round(trials.reduce((all, trial) => all + of(trial), 0) / count);
  const most = (of: (trial: PauseTrialResult) => number) => Math.max(...trials.map(of));
  work.step({
    name: `stop, mean of ${count}`,
    us: sum(({ pauseUs }) => pauseUs),
    note: `longest ${most(({ longestPauseUs }) => longestPauseUs)} us`,
  });
  work.step({
    name: `run again, mean of ${count}`,
    us: sum(({ unpauseUs }) => unpauseUs),
    note: `longest ${most(({ longestUnpauseUs }) => longestUnpauseUs)} us`,
  });
  await worker.control.ask('verify');
  await worker.control.ask('exit');
}
