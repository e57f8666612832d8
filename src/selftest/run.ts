/** Runs stages one after the other, stops at the first failure, and undoes what each has done. */

import { asKfdError, type KfdError } from '../errors.js';
import {
  type Log,
  Skipped,
  type Stage,
  type StageName,
  type StageResult,
  type StageWork,
  type Step,
} from './stage.js';

export interface RunOptions {
  readonly signal: AbortSignal;
  /** Microseconds that never go back. */
  readonly now: () => number;
  /** Asked once, before the first stage that uses the GPU. False: it and those after it do not run. */
  readonly mayUseGpu: () => Promise<boolean>;
  readonly onBegin?: (name: StageName) => void;
  readonly onEnd?: (result: StageResult) => void;
}

/** Hints for failures that bring none: the next thing to look at, by stage. */
const usualHints: Readonly<Record<StageName, string>> = {
  host: 'run "kfd-checkpoint check"',
  copy: 'see the kernel log for amdgpu; the GPU may need a reset',
  queues: 'see the kernel log for amdgpu and kfd',
  pause: 'see the kernel log for kfd; docs/kernels.md has what each kernel can do',
  canary: "the log has CRIU's words; docs/troubleshooting.md explains them",
  podman: "the logs have CRIU's and the session's words; docs/troubleshooting.md explains them",
  containerd: 'see the logs of sessions (log_dir; else /var/log/kfd-checkpoint) and of containerd',
};

/** The result of every stage, in order; of those that did not run as well. Never throws. */
export async function runStages(
  stages: readonly Stage[],
  options: RunOptions,
): Promise<StageResult[]> {
  const results: StageResult[] = [];
  let stopped: string | undefined;
  let asked = false;
  for (const stage of stages) {
    if (stopped === undefined && stage.usesGpu && !asked) {
      asked = true;
      if (!(await options.mayUseGpu())) stopped = 'the GPU was not to be used';
    }
    if (stopped === undefined && options.signal.aborted) stopped = 'interrupted';
    if (stopped !== undefined) {
      results.push(notRun(stage.name, stopped));
      continue;
    }
    options.onBegin?.(stage.name);
    const result = await runOne(stage, options);
    options.onEnd?.(result);
    results.push(result);
    if (result.status === 'failed') stopped = `stage ${stage.name} failed`;
  }
  return results;
}

function notRun(name: StageName, reason: string): StageResult {
  return { name, status: 'not_run', us: 0, reason, steps: [], logs: [] };
}

async function runOne(stage: Stage, { signal, now }: RunOptions): Promise<StageResult> {
  const work = new Work(signal);
  const began = now();
  let failure: KfdError | undefined;
  let skipped: string | undefined;
  let logs: Log[] = [];
  try {
    await stage.run(work);
  } catch (error) {
    if (error instanceof Skipped) skipped = error.message;
    else failure = asKfdError(error, stage.name);
    if (failure !== undefined) logs = await work.logs();
  }
  failure = (await work.undoAll(failure)) ?? failure;
  const facts = { name: stage.name, us: now() - began, steps: work.steps, logs };
  if (failure !== undefined) {
    const { code, message, hint = usualHints[stage.name] } = failure;
    return { ...facts, status: 'failed', reason: message, code, hint };
  }
  return skipped === undefined
    ? { ...facts, status: 'passed' }
    : { ...facts, status: 'skipped', reason: skipped };
}

class Work implements StageWork {
  readonly signal: AbortSignal;
  readonly steps: Step[] = [];
  readonly #undos: { what: string; action: () => Promise<void> }[] = [];
  readonly #readers: { name: string; read: () => Promise<string | undefined> }[] = [];

  constructor(signal: AbortSignal) {
    this.signal = signal;
  }

  step(step: Step): void {
    this.steps.push(step);
  }

  undo(what: string, action: () => Promise<void>): void {
    this.#undos.push({ what, action });
  }

  logOnFailure(name: string, read: () => Promise<string | undefined>): void {
    this.#readers.push({ name, read });
  }

  /** A log that cannot be read is left out: it must not hide the reason of the failure. */
  async logs(): Promise<Log[]> {
    const logs: Log[] = [];
    for (const { name, read } of this.#readers) {
      const text = await read().catch(() => undefined);
      if (text !== undefined && text !== '') logs.push({ name, text });
    }
    return logs;
  }

  /**
   * Undoes all, also what comes after an action that failed. Returns the failure of the first of these; none when the
   * stage has failed already, whose reason is the more important one.
   */
  async undoAll(failure: KfdError | undefined): Promise<KfdError | undefined> {
    let first: KfdError | undefined;
    for (const { what, action } of this.#undos.reverse()) {
      try {
        await action();
      } catch (error) {
        first ??= asKfdError(error, what);
        this.step({ name: `undo ${what}`, note: asKfdError(error, what).message });
      }
    }
    return failure === undefined ? first : undefined;
  }
}
