/** KFD exports the buffers of another process instead of the container's. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { until } from './support/command.js';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { scenario } from './support/suite.js';

/** More handles than the containers of all engines together have buffers. */
const handles = 64;

/** Somebody else on the GPU: test/lab/programs/stale_handles.cc. */
class Stranger {
  readonly #child: ChildProcess;
  #text = '';

  constructor() {
    const program = '/repo/build/lab/programs/bin/stale-handles';
    this.#child = spawn(program, [`${handles}`], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#text += text;
    });
  }

  /** Waits for the end of a step. */
  async said(word: string): Promise<void> {
    await until(`"${word}" of the stranger`, () => this.#text.includes(`${word}\n`), 60);
  }

  next(): void {
    this.#child.stdin?.write('\n');
  }

  async end(): Promise<void> {
    this.#child.stdin?.end();
    if (this.#child.exitCode === null) await once(this.#child, 'exit');
    assert.equal(this.#child.exitCode, 0);
  }
}

let stranger: Stranger | undefined;

scenario(
  "refused after the pause: KFD exports another process's buffers for those of the container",
  async ({ engine, meet }) => {
    await meet(async () => {
      stranger = new Stranger();
      await stranger.said('free');
    });
    try {
      const job = await Container.start({ engine, command: ['kfd-worker', '--memory'] });
      await meet(async () => {
        stranger?.next();
        await stranger?.said('taken');
      });
      const saved = await job.checkpoint();
      assert.notEqual(saved.status, 0, 'the checkpoint should have been refused');
      const reason =
        /pid \d+ \(kfd-worker\): the dma-buf of BO \d+ on GPU \d+ leads to another buffer: 1048576 bytes at 0x/;
      await assertExplained(job, 'dump', saved, reason);
      await meet(() => undefined); // a pause of the other container stops every queue for a moment
      assert.equal(await job.status(), 'running');
      assert.match(await job.control.ask('verify'), /^verified /);
    } finally {
      await meet(() => stranger?.end());
    }
  },
);
