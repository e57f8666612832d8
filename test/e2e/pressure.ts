/**
 * Others want the memory that a container's GPU works on, and the host's, while it is saved and comes back. The driver
 * moves its buffers out of VRAM and stops its queues meanwhile. Either the contents are right in the end, or it is
 * refused by name.
 */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { archivePath } from './support/archive.js';
import { run, until } from './support/command.js';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { gpuWith } from './support/gpu.js';
import { scenario } from './support/suite.js';

/** Of 384 MiB of VRAM two containers use some 180. */
const hogMib = 300;
const holdMs = 400;
const pauseMs = 800;
const worker = ['--vram-mib', '64', '--pending-barrier', '--step-ms', '20'];
const verified = /^verified bytes=67108864 barrier=completed/;

/** Takes VRAM from everybody, again and again. */
class Hog {
  readonly #child: ChildProcess;
  #text = '';

  constructor() {
    const program = '/repo/build/lab/programs/bin/vram-hog';
    const words = ['/dev/dri/renderD128', hogMib, holdMs, pauseMs].map(String);
    this.#child = spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#text += text;
    });
  }

  get rounds(): number {
    return this.#text.split('\n').length - 1;
  }

  async end(): Promise<void> {
    this.#child.kill('SIGTERM');
    if (this.#child.exitCode === null) await once(this.#child, 'exit');
    assert.equal(this.#child.exitCode, 0);
  }
}

/** How long the driver has stopped the queues of this process so far, ms. */
function evictedMs(pid: number): number {
  const folder = `/sys/class/kfd/kfd/proc/${pid}`;
  return readdirSync(folder)
    .filter((name) => name.startsWith('stats_'))
    .map((name) => Number(readFileSync(join(folder, name, 'evicted_ms'), 'utf8')))
    .reduce((sum, ms) => sum + ms, 0);
}

/** The restore of `archive`, which VRAM that others have just then may refuse. */
async function bringBack(job: Container, archive: string): Promise<void> {
  for (let attempts = 1; ; attempts++) {
    const restored = await job.restore('--keep', '--import', archive);
    if (restored.status === 0) return;
    await assertExplained(job, 'restore', restored, /\d+ bytes of VRAM are needed, \d+ are free/);
    assert.ok(attempts < 10, `refused ${attempts} times: ${restored.stderr}`);
    await job.remove();
  }
}

let hog: Hog | undefined;

scenario(
  'VRAM that others want: buffers are evicted while it is saved and while it comes back',
  async ({ engine, meet }) => {
    const archive = archivePath(engine, 'pressed.tar');
    const job = await Container.start({ engine, worker });
    await meet(() => {
      hog = new Hog();
    });
    try {
      await until('an eviction', () => evictedMs(job.pid()) > 0, 30);
      await job.computesOn();
      for (const round of ['first', 'second']) {
        const saved = await job.checkpoint('--compress', 'none', '--export', archive);
        assert.equal(saved.status, 0, `${round}: ${saved.stderr}`);
        await job.remove();
        await bringBack(job, archive);
        await until(`${round}: an eviction`, () => evictedMs(job.pid()) > 0, 30);
        assert.match(await job.control.ask('verify'), verified);
        await job.computesOn();
      }
    } finally {
      await meet(async () => {
        console.log(`# rounds of the one who wants VRAM: ${hog?.rounds}`);
        await hog?.end();
      });
    }
  },
  { gpu: gpuWith('vram_mb=384') },
);

const filler = '/dev/shm/filler';
/** What is left for two containers, their images and sessions. */
const leftMib = 900;

/** Fills the host's memory, which can be written to no disk here. */
async function fillMemory(): Promise<void> {
  const meminfo = readFileSync('/proc/meminfo', 'utf8');
  const available = Number(/^MemAvailable: +(\d+) kB/m.exec(meminfo)?.[1]) / 1024;
  await run('mount', '-o', 'remount,size=100%', '/dev/shm');
  await run('fallocate', '-l', `${Math.floor(available - leftMib)}M`, filler);
}

scenario('host memory that is nearly full', async ({ engine, meet }) => {
  const job = await Container.start({ engine, worker });
  await meet(fillMemory);
  try {
    const saved = await job.checkpoint();
    assert.equal(saved.status, 0, saved.stderr);
    const restored = await job.restore(job.name);
    assert.equal(restored.status, 0, restored.stderr);
    assert.match(await job.control.ask('verify'), verified);
  } finally {
    await meet(() => rmSync(filler, { force: true }));
  }
});
