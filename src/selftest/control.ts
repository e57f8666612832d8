/** Speaks to the program of the self-test through files in a folder (native/selftest/mailbox.h). */

import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../errors.js';
import { readTextIfAny } from '../os/files.js';

/** What the program says of itself. */
export interface ProgramState {
  /** Rounds that each of its GPUs has done. */
  readonly rounds: readonly number[];
  /** Whether all GPUs are at work. */
  readonly busy: boolean;
  /** Kinds of state that it holds. */
  readonly parts: readonly string[];
}

interface Answer extends Partial<ProgramState> {
  readonly id: string;
  readonly result: string;
  readonly reason?: string;
}

export interface Patience {
  readonly signal: AbortSignal;
  /** Milliseconds between two looks. */
  readonly pollMs: number;
  /** Longest wait for an answer. Contents of the largest GPUs take a minute. */
  readonly limitMs: number;
  /** Why no answer can come any more; undefined while one can. */
  readonly ended?: () => string | undefined;
}

/** With the usual poll, some seconds. */
const mostLooks = 100;

export class Control {
  readonly folder: string;
  readonly #patience: Patience;
  #asked = 0;

  constructor(folder: string, patience: Patience) {
    this.folder = folder;
    this.#patience = patience;
  }

  /** Waits until the program holds all it was told to. */
  async ready(): Promise<ProgramState> {
    return stateOf(await this.#answerTo(''));
  }

  /**
   * `verify`: everything is compared and tried. `status`: nothing is. Throws E_GPU_IO with the program's reason when
   * something is not as it was, E_TIMEOUT without an answer.
   */
  async ask(order: 'verify' | 'status' | 'exit'): Promise<ProgramState> {
    this.#asked += 1;
    const id = `${process.pid}.${this.#asked}`;
    const draft = join(this.folder, 'order.new');
    await writeFile(draft, `${id} ${order}\n`);
    await rename(draft, join(this.folder, 'order'));
    return stateOf(await this.#answerTo(id));
  }

  /**
   * Asks until every GPU has done more rounds than in `before`. Throws as ask(), and E_GPU_IO when one does no more: a
   * slow one may be in the middle of a round.
   */
  async goneOn(before: ProgramState, gpus: readonly string[]): Promise<ProgramState> {
    for (let look = 1; ; look++) {
      const state = await this.ask('status');
      const still = standing(before, state, gpus);
      if (still.length === 0) return state;
      if (look === mostLooks) throw standstill(still);
      await delay(this.#patience.pollMs);
    }
  }

  async #answerTo(id: string): Promise<Answer> {
    const { signal, pollMs, limitMs, ended } = this.#patience;
    const deadline = performance.now() + limitMs;
    for (;;) {
      // The end is looked at first: an answer may come just before it.
      const end = ended?.();
      const answer = await this.#find(id);
      if (answer !== undefined) return answer;
      if (end !== undefined) throw new KfdError('E_GPU_IO', `the test program ended: ${end}`);
      if (signal.aborted) throw new KfdError('E_CANCELLED', 'selftest: interrupted');
      if (performance.now() > deadline) {
        throw new KfdError('E_TIMEOUT', `the test program: no answer in ${limitMs / 1000} s`, {
          hint: 'the GPU does not go on: see the kernel log for amdgpu and kfd',
        });
      }
      await delay(pollMs);
    }
  }

  async #find(id: string): Promise<Answer | undefined> {
    const text = (await readTextIfAny(join(this.folder, 'answers'), 16 << 20)) ?? '';
    // The last line may not be whole.
    const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
    const answers = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Answer);
    // A program that cannot begin says so once.
    return answers.find((one) => one.id === id || (one.id === '' && one.result === 'failed'));
  }
}

function stateOf({ result, reason, rounds = [], busy = false, parts = [] }: Answer): ProgramState {
  if (result !== 'failed') return { rounds, busy, parts };
  throw new KfdError('E_GPU_IO', `the test program: ${reason ?? 'failed'}`);
}

/** Throws E_GPU_IO unless every GPU has done more rounds in `after` than in `before`. */
export function assertWentOn(before: ProgramState, after: ProgramState, gpus: readonly string[]) {
  const still = standing(before, after, gpus);
  if (still.length > 0) throw standstill(still);
}

function standing(before: ProgramState, after: ProgramState, gpus: readonly string[]): string[] {
  return gpus.filter((_, at) => !((after.rounds[at] ?? 0) > (before.rounds[at] ?? 0)));
}

function standstill(still: readonly string[]): KfdError {
  return new KfdError('E_GPU_IO', `${still.join(', ')}: the SDMA queue does not go on`);
}
