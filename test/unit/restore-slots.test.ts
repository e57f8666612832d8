/** Restores on GPUs where others have SDMA queues: refused before a task exists, or alone at it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KfdError } from '../../src/errors.js';
import { claimSlots, pairsWithRoom, type SlotPlan } from '../../src/session/restore/slots.js';
import { archive } from './archive-builder.js';
import { cli, errorIn } from './cli-context.js';
import {
  checkpointFiles,
  describeFiles,
  gpuIds,
  kfdBos,
  names,
  type Parts,
  soundParts,
} from './forged-image.js';
import { stateFile } from './forged-state.js';
import { hostWithQueues } from './mqds-text.js';
import { logLines, started } from './played-restore.js';
import { bentHost } from './sysfs-tree.js';
import { ready } from './written-image.js';

/** Gives the process an SDMA queue with this number on the first GPU. */
function withQueue(parts: Parts, sdmaId: number): Parts {
  const devices = gpuIds.map((id) => [id, id] as const);
  const before = 8 + 8 * devices.length + 272 * kfdBos.length;
  const priv = Buffer.alloc(before + 120 + 512);
  kfdBos.forEach((_, i) => void priv.writeUInt32LE(i, 8 + 8 * devices.length + 272 * i + 8));
  const words = [
    [64, gpuIds[0]],
    [68, 1],
    [96, sdmaId],
    [112, 512],
  ] as const;
  for (const [at, word] of words) priv.writeUInt32LE(word, before + at);
  parts.files.set(names.state, stateFile({ devices, bos: kfdBos, priv, objects: 1 }));
  Object.assign(parts.manifest.processes[0] as object, { num_objects: 1, sdma_gpus: [0] });
  describeFiles(parts);
  return parts;
}

/** Process 71 has queue 0 of engine 1: number 1 of two engines. */
const busy = hostWithQueues(71, gpuIds[0], [[1, 0]]);
const taken = /pid 71 has SDMA queue 1 of gpu 51966 here, and the image needs the same/;

test('the session refuses a place that another process has, and takes one that is free', async (t) => {
  const bend = (sdmaId: number) => (parts: Parts) => void withQueue(parts, sdmaId);
  await assert.rejects(started(t, { bend: bend(1), host: busy }), (error: KfdError) => {
    assert.equal(error.code, 'E_SDMA_SLOT');
    assert.match(error.message, taken);
    assert.match(error.hint ?? '', /stop this process, or choose another GPU/);
    return true;
  });
  const free = await started(t, { bend: bend(2), host: busy });
  assert.deepEqual(await logLines(free, 'SDMA queues of others'), []);
});

test('places that are not known stay a warning', async (t) => {
  const host = { ...busy, 'sys/kernel/debug/kfd/mqds': '' };
  const all = await started(t, { bend: (parts) => void withQueue(parts, 1), host });
  assert.equal((await logLines(all, 'SDMA queues of others')).length, 1);
});

test('check refuses the same, with the code and the reason', async (t) => {
  const path = await archive(t, checkpointFiles(withQueue(soundParts(), 1)));
  const root = await bentHost(t, 'two-gpus', busy);
  const words = ['check', '--root', root, '--format', 'json'];
  const here = ['--gpu-map', 'renderD128=renderD128'];
  const { code, stdout, stderr } = await cli([...words, ...here, path]);
  assert.equal(code, 3, stdout);
  assert.equal(errorIn(stderr).code, 'E_SDMA_SLOT');
  assert.match(errorIn(stderr).message, taken);
  // Where it may choose, it takes the other GPU.
  const moved = JSON.parse((await cli([...words, path])).stdout);
  assert.deepEqual([moved.restorable, moved.gpus[0].present.render_minor], [true, 129]);
  const other = await archive(t, checkpointFiles(withQueue(soundParts(), 4)));
  const fits = await cli([...words, other]);
  assert.equal(fits.code, 0, fits.stderr);
  assert.deepEqual(JSON.parse(fits.stdout).warnings, []);
});

const soon = { pollMs: 5, longestMs: 30 };

async function planOf(t: Parameters<typeof ready>[0], sdmaId: number): Promise<SlotPlan> {
  const plan = await ready(t, withQueue(soundParts(), sdmaId));
  assert.ok(plan);
  assert.deepEqual(plan.wants, new Map([[0, [{ link: 'pcie', id: sdmaId }]]]));
  return plan;
}

test('of two restores at once that need the same place one goes on, and the next after it', async (t) => {
  const plan = await planOf(t, 1);
  const first = await claimSlots(plan, soon);
  await assert.rejects(claimSlots(plan, soon), {
    code: 'E_SDMA_SLOT',
    message:
      'another restore is under way here, and needs the same SDMA queues: on gpu 51966 (renderD128)',
  });
  const wants = new Map([[0, [{ link: 'pcie', id: 2 } as const]]]);
  const beside = await claimSlots({ ...plan, wants }, soon);
  beside?.close();
  const waits = claimSlots(plan, { ...soon, longestMs: 60_000 });
  first?.close();
  (await waits)?.close();
  assert.equal(await claimSlots({ ...plan, wants: undefined }, soon), undefined);
  assert.equal(await claimSlots({ ...plan, wants: new Map() }, soon), undefined);
});

test('whoever waited for another restore sees its queues, and gives its own claim back', async (t) => {
  const plan = await planOf(t, 1);
  const root = await bentHost(t, 'two-gpus', busy);
  const late = { ...plan, root };
  await assert.rejects(claimSlots(late, soon), { code: 'E_SDMA_SLOT', message: taken });
  const wants = new Map([[0, [{ link: 'pcie', id: 2 } as const]]]);
  (await claimSlots({ ...late, wants }, soon))?.close();
  await assert.rejects(pairsWithRoom(late, soon), { code: 'E_SDMA_SLOT' });
  const [pair] = await pairsWithRoom({ ...late, wants }, soon);
  assert.deepEqual(pair?.present.sdmaUsers[0]?.slots, [{ link: 'pcie', id: 1 }]);
});

test('what the driver would read beyond is not asked for, whichever GPU of the host has several dies', async (t) => {
  const plan = await planOf(t, 1);
  const root = await bentHost(t, 'two-gpus', busy);
  const [first, second] = plan.host.gpus;
  assert.ok(first && second);
  const pairs = plan.pairs.slice(0, 1);
  assert.equal(pairs[0]?.present.record.gpu_id, first.record.gpu_id);
  const many = { ...second, record: { ...second.record, num_xcc: 8 } };
  const host = { ...plan.host, gpus: [first, many] };
  const [pair] = await pairsWithRoom({ ...plan, pairs, root, host }, soon);
  assert.deepEqual(pair?.present.sdmaUsers, [{ pid: 71, queues: 1 }]);
});
