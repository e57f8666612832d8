/**
 * `kfd-checkpoint selftest` on GPUs of several kinds and numbers, as the drivers of several kernels, and with faults:
 * each fails exactly the stage that it belongs to, says what to do, and leaves host and GPU as they were.
 */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Report } from '../../src/selftest/report.js';
import { attemptWithin, until } from './support/command.js';
import { Container } from './support/container.js';
import { Containerd } from './support/containerd.js';
import {
  addFault,
  forgetFaults,
  type Gpu,
  gpuObjects,
  hideRelease,
  kfdsim,
  loadGpu,
  showRelease,
  unloadGpu,
  usualGpu,
} from './support/gpu.js';
import { partTest } from './support/part.js';
import { configure, loadedPlugin } from './support/product.js';
import { assertNothingLeft } from './support/suite.js';

/** One run with all stages takes minutes in the guest. */
const limitS = 1500;
const mib = '8';
/** All that takes no container. */
const bare = 'copy,queues,pause,canary';

async function selftest(stages: string | undefined) {
  const chosen = stages === undefined ? [] : ['--stages', stages];
  const words = ['selftest', '--yes', '--format', 'json', '--size', mib, ...chosen];
  const { status, stdout, stderr } = await attemptWithin(limitS, 'kfd-checkpoint', ...words);
  const report = JSON.parse(stdout) as Report;
  return { status, stderr, report };
}

/** Folders of the self-test that nobody has removed. */
const folders = () => readdirSync('/var/tmp').filter((name) => name.includes('selftest'));

async function passes(stages?: string): Promise<void> {
  const { status, stderr, report } = await selftest(stages);
  assert.equal(status, 0, stderr);
  const statuses = report.stages.map(({ name, status, reason }) => [name, status, reason]);
  assert.ok(
    report.stages.every((stage) => stage.status === 'passed'),
    JSON.stringify(statuses),
  );
  const parts = report.stages.find((stage) => stage.name === 'queues')?.steps[0]?.note ?? '';
  assert.equal(parts.includes('svm'), report.gpus[0]?.svm === true, parts);
  assert.deepEqual(folders(), []);
  await assertNothingLeft();
}

async function isRefused(reason: RegExp, stages?: string): Promise<void> {
  const { status, report } = await selftest(stages);
  assert.notEqual(status, 0);
  const [host, ...others] = report.stages;
  assert.equal(host?.status, 'failed', JSON.stringify(report.stages));
  assert.match(host?.reason ?? '', reason);
  assert.ok(others.every((stage) => stage.status === 'not_run'));
  await assertNothingLeft();
}

interface Kind {
  readonly gpu: Gpu;
  /** All by default. */
  readonly stages?: string;
  /** The reason for which stage host refuses kernel and GPU: docs/kernels.md. */
  readonly refused?: RegExp;
}

const kinds: Readonly<Record<string, Kind>> = {
  'the usual driver, all stages': { gpu: usualGpu },
  'one GPU, all stages': { gpu: kfdsim() },
  'two GPUs, all stages': { gpu: kfdsim('gpus=2') },
  'eight GPUs in a hive': { gpu: kfdsim('gpus=8', 'hive=1'), stages: bare },
  'as 6.1': { gpu: kfdsim('behaves_as=6.1'), stages: bare, refused: /layout/ },
  'as 6.12.107': { gpu: kfdsim('behaves_as=6.12.107'), stages: bare },
  'as 6.12.117': { gpu: kfdsim('behaves_as=6.12.117'), stages: bare },
  'as 7.2': { gpu: kfdsim('behaves_as=7.2'), stages: bare, refused: /control stack/ },
  'as 7.2, gfx10': {
    gpu: kfdsim('behaves_as=7.2', 'gfx_target_version=100300'),
    stages: bare,
  },
  'as 7.3': { gpu: kfdsim('behaves_as=7.3'), stages: bare },
};

for (const [name, { gpu, stages, refused }] of Object.entries(kinds)) {
  partTest(`${refused === undefined ? 'passes' : 'is refused'}: ${name}`, {}, async () => {
    await loadGpu(gpu);
    await showRelease(gpu.parameters);
    const containerd = stages === undefined ? await Containerd.start() : undefined;
    try {
      if (refused === undefined) await passes(stages);
      else await isRefused(refused, stages);
    } finally {
      await containerd?.stop();
      await hideRelease();
    }
  });
}

interface Fault {
  readonly stage: string;
  readonly rules?: readonly string[];
  /** What it is beside rules of the driver. Returns how it is taken back. */
  readonly set?: () => Promise<() => Promise<void> | void>;
  readonly parameters?: readonly string[];
}

/** Of the simulated GPU. */
const id = 6699;
/** Numbers of ioctls in the headers of the kernel; of the DRM driver, 0x40 more. */
const call = { createQueue: 2, createEvent: 8, acquireVm: 0x15, alloc: 0x16, map: 0x18 } as const;
const drm = { submit: 0x44, userptr: 0x51 } as const;
/** PROCESS_INFO of stages pause and canary. */
const pausesBefore = 101;

const faults: Readonly<Record<string, Fault>> = {
  'no driver': {
    stage: 'host',
    set: async () => {
      await unloadGpu();
      return () => loadGpu(kfdsim());
    },
  },
  'cwsr_enable=0': { stage: 'host', parameters: ['cwsr_enable=0'] },
  'no plugin': {
    stage: 'host',
    set: async () => {
      const away = `${loadedPlugin}.away`;
      renameSync(loadedPlugin, away);
      return () => renameSync(away, loadedPlugin);
    },
  },
  'somebody else uses the GPU': {
    stage: 'host',
    set: async () => {
      const other = await Container.start({ engine: 'crun', worker: ['--vram-mib', '1'] });
      return () => other.remove();
    },
  },
  'a copy that fails': { stage: 'copy', rules: ['copy 1 fail'] },
  'a copy that inverts a bit': { stage: 'copy', rules: ['copy 1 flip 3'] },
  'no VRAM': { stage: 'copy', rules: [`vram ${id} 0`] },
  'no submission': { stage: 'copy', rules: [`drm ${drm.submit} 1 5`] },
  'no pinned memory': { stage: 'copy', rules: [`drm ${drm.userptr} 1 12`] },
  'no address space': { stage: 'queues', rules: [`kfd ${call.acquireVm} 1 22`] },
  'no KFD memory': { stage: 'queues', rules: [`kfd ${call.alloc} 3 12`] },
  'no mapping': { stage: 'queues', rules: [`kfd ${call.map} 2 12`] },
  'no queue': { stage: 'queues', rules: [`kfd ${call.createQueue} 1 12`] },
  'no second queue': { stage: 'queues', rules: [`kfd ${call.createQueue} 2 12`] },
  'no event': { stage: 'queues', rules: [`kfd ${call.createEvent} 1 12`] },
  'no SDMA engine': { stage: 'queues', rules: [`sdma ${id} 0`, `sdma ${id} 1`] },
  'a pause that fails': { stage: 'pause', rules: ['pause 1 12'] },
  'a pause that fails later': { stage: 'pause', rules: ['pause 57 12'] },
  'an end of a pause that fails': { stage: 'pause', rules: ['unpause 9 5'] },
  'a buffer without dma-buf': { stage: 'canary', rules: ['checkpoint 1 12'] },
  'a buffer that does not come back': { stage: 'canary', rules: ['restore 2 12'] },
  'a queue that does not come back': { stage: 'canary', rules: ['object 1 12'] },
  'queues that do not run again': {
    stage: 'canary',
    rules: ['resume hold'],
    set: async () => {
      configure({ gate_timeout_s: 15 });
      return () => configure({});
    },
  },
  'a pause of a container that fails': { stage: 'podman', rules: [`pause ${pausesBefore + 1} 12`] },
};

for (const [name, { stage, rules = [], set, parameters = [] }] of Object.entries(faults)) {
  partTest(`fails in stage ${stage}: ${name}`, {}, async () => {
    await loadGpu(kfdsim(...parameters));
    await until('a GPU that nobody uses', () => gpuObjects()['processes'] === 0, 20);
    const before = gpuObjects();
    const takeBack = await set?.();
    if (rules.length > 0) addFault(...rules);
    try {
      const { status, stderr, report } = await selftest(undefined);
      assert.notEqual(status, 0);
      const failed = report.stages.filter((one) => one.status === 'failed');
      const all = JSON.stringify(report.stages.map((one) => [one.name, one.status, one.reason]));
      assert.deepEqual(
        failed.map((one) => one.name),
        [stage],
        all,
      );
      assert.match(failed[0]?.hint ?? '', /\S/);
      assert.match(stderr, /"hint":"/);
    } finally {
      if (rules.length > 0) forgetFaults();
      await takeBack?.();
    }
    assert.deepEqual(folders(), []);
    await assertNothingLeft();
    assert.deepEqual(gpuObjects(), before);
  });
}

partTest('killed in stage pause: the program ends, and its pause', {}, async () => {
  await loadGpu(kfdsim());
  const words = ['selftest', '--yes', '--size', mib, '--stages', 'pause'];
  const child = spawn('kfd-checkpoint', words, { stdio: 'ignore' });
  await until('queues of stage pause', () => gpuObjects()['queues'] !== 0, 120);
  child.kill('SIGKILL');
  await until('a GPU that nobody uses', () => gpuObjects()['processes'] === 0, 30);
  for (const folder of folders()) rmSync(join('/var/tmp', folder), { recursive: true });
  await assertNothingLeft();
});

partTest('the GPU is as it was', {}, () => loadGpu());
