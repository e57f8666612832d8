/** What a process holds on render nodes beside KFD's memory. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { attempt, until } from './support/command.js';
import { Container, type Control } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { kfdsim, loadGpu, setDmaRate, setHandleCalls } from './support/gpu.js';
import type { Lane } from './support/lanes.js';
import { partTest } from './support/part.js';
import { assertNothingLeft, scenario } from './support/suite.js';

const node = '/dev/dri/renderD128';
const roundTrip = () => attempt('/repo/build/native/render_roundtrip', node);

partTest('a render file is read and made again, by the native core alone', {}, async () => {
  const without = await roundTrip();
  assert.match(without.stdout, /^refused: GEM buffers of its own: .*no GEM_LIST_HANDLES/);
  await loadGpu(kfdsim()); // as later kernels
  try {
    for (const [change, how] of [
      ['absent', 'steered'],
      ['disabled', 'steered'],
      ['working', 'changed'],
    ] as const) {
      setHandleCalls('working', change);
      const same = await roundTrip();
      assert.equal(same.stdout, `same: ${how}`, same.stderr);
    }
    await assertNothingLeft();
  } finally {
    await loadGpu();
  }
});

/** A checkpoint that must fail for `reason` and leaves the container as it was. */
async function assertRefused(job: Container, reason: RegExp): Promise<void> {
  const saved = await job.checkpoint();
  assert.notEqual(saved.status, 0, 'the checkpoint should have been refused');
  await assertExplained(job, 'dump', saved, reason);
  assert.equal(await job.status(), 'running');
}

/** Pids that the process has started and not yet waited for. */
function childrenOf(pid: number): string[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/ +/);
}

async function withoutKfd({ engine, meet }: Lane): Promise<void> {
  // The second one's work lasts for a quarter of a minute. Its engine does nothing else meanwhile.
  const command = ['sh', '-c', `render-worker ${node} & render-worker ${node} /ctl/busy; wait`];
  const job = await Container.start({ engine, command, folders: ['busy'] });
  const [busy] = job.inner as [Control];
  const seen = await job.control.ask('verify');
  assert.match(seen, /^verified handles=2,5,6, submissions=\d+/);
  await assertRefused(job, /GEM buffers of its own: .*no GEM_LIST_HANDLES/);
  await meet(async () => setHandleCalls('working', 'absent'));
  try {
    assert.equal(await job.control.ask('orphan'), 'orphan');
    await assertRefused(
      job,
      new RegExp(
        'no process of the container has the buffer of dma-buf inode \\d+, ' +
          'which pid \\d+ \\(render-worker\\) holds open as descriptor \\d+',
      ),
    );
    assert.equal(await job.control.ask('forget'), 'forgotten');
    await meet(async () => setDmaRate(16));
    assert.equal(await busy.ask('busy'), 'busy');
    await meet(async () => setDmaRate(0));
    await assertRefused(job, /context 2: work it submitted is still in flight/);
    assert.equal(await busy.ask('exit'), 'exiting');
    // CRIU cannot freeze it while it waits in the kernel for its work.
    await until('the end of the busy program', () => childrenOf(job.pid()).length === 1);
    const before = submissions(await job.control.ask('verify'));
    const archive = archivePath(engine, 'render.tar');
    const saved = await job.checkpoint('--compress', 'none', '--export', archive);
    assert.equal(saved.status, 0, saved.stderr);
    await job.remove();
    await meet(async () => setHandleCalls('working', 'working'));
    const restored = await job.restore('--import', archive);
    assert.equal(restored.status, 0, restored.stderr);
    const after = await job.control.ask('verify');
    assert.match(after, /^verified handles=2,5,6, /);
    assert.ok(submissions(after) > before, after);
  } finally {
    await meet(async () => {
      setDmaRate(0);
      setHandleCalls('absent', 'absent');
    });
  }
}

function submissions(reply: string): number {
  return Number(/submissions=(\d+)/.exec(reply)?.[1]);
}

// A GPU of its own: what the unfinished copies occupy of it would hold up others for minutes.
scenario('render nodes without KFD: refused by name, then saved', withoutKfd, { gpu: kfdsim() });

const besideKfd = async ({ engine, meet }: Lane): Promise<void> => {
  await meet(async () => setHandleCalls('working', 'absent'));
  try {
    const worker = ['--vram-mib', '8', '--pending-barrier', '--gem', '--double-render'];
    const job = await Container.start({ engine, worker });
    for (const round of ['first', 'second']) {
      const saved = await job.checkpoint();
      assert.equal(saved.status, 0, `${round}: ${saved.stderr}`);
      const restored = await job.restore(job.name);
      assert.equal(restored.status, 0, `${round}: ${restored.stderr}`);
    }
    assert.match(await job.control.ask('verify'), /^verified .*holds=gem holds=double-render/);
    assert.match(await job.control.ask('exit'), /^exiting/);
  } finally {
    await meet(async () => setHandleCalls('absent', 'absent'));
  }
};

scenario('render files beside KFD, one of them idle, twice in place', besideKfd, { gpu: kfdsim() });
