import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeManifest } from '../../src/manifest/codec.js';
import { archive, gpuCheckpoint } from './archive-builder.js';
import { cli } from './cli-context.js';
import { stateBytes } from './state-builder.js';

test('inspect shows what a state file holds: queues, events, BOs of all kinds', async (t) => {
  const { files } = gpuCheckpoint();
  files['checkpoint/kfd-state-0.img'] = stateBytes({
    devices: 2,
    bos: [
      { flags: 1, size: 1 << 20 },
      { flags: 4, size: 4096 },
    ],
    vmas: 0,
    queues: [
      { id: 4, gpuId: 51966, type: 0, ringBytes: 65536, priority: 7, mqd: 8, controlStack: 0 },
    ],
    events: [{ autoReset: true, isSet: true }],
    ranges: [{ pages: 2 }],
  });
  const path = await archive(t, files);
  const report = JSON.parse((await cli(['inspect', path, '--format', 'json'])).stdout) as {
    processes: { kfd: unknown }[];
  };
  assert.deepEqual(report.processes[0]?.kfd, {
    bos: { vram: { count: 1, size: 1 << 20 }, userptr: { count: 1, size: 4096 } },
    queues: [{ id: 4, gpu_id: 51966, kind: 'compute', ring_size: 65536, priority: 7 }],
    events: { count: 1, set: 1, auto_reset: 1 },
    svm_ranges: { count: 1, size: 8192 },
  });
  const tree = (await cli(['inspect', path, '--format', 'tree'])).stdout;
  assert.match(tree, /4: compute, GPU id 51966, ring 64\.0 KiB, priority 7/);
  assert.match(tree, /Events: 1, with 1 set and 1 with auto-reset/);
  assert.match(tree, /SVM ranges: 1, 8\.0 KiB/);
  assert.match((await cli(['inspect', path])).stdout, /^0 +7 +worker +0,1 +24 +1 +1 /m);
});

test('inspect names the queues that the recorded kernel cannot bring back', async (t) => {
  const { files, manifest } = gpuCheckpoint();
  const queue = { gpuId: 77, type: 0, ringBytes: 65536, priority: 7, mqd: 8, controlStack: 0 };
  files['checkpoint/kfd-state-0.img'] = stateBytes({
    devices: 2,
    ids: [[77, 51966]],
    bos: [],
    vmas: 0,
    queues: [4, 5].map((id) => ({ ...queue, id })),
    events: [],
    ranges: [],
  });
  const report = async (release: string, format: string) => {
    manifest.host.kernel_release = release;
    files['checkpoint/kfd-manifest.json'] = encodeManifest(manifest);
    return (await cli(['inspect', await archive(t, files), '--format', format])).stdout;
  };
  const facts = async (release: string) => {
    const { kernel, processes } = JSON.parse(await report(release, 'json')) as {
      kernel: unknown;
      processes: { lost_queues: string[] }[];
    };
    return [kernel, processes[0]?.lost_queues];
  };
  const reason =
    'compute queues 4, 5 on a gfx90a: RESTORE of this kernel makes no room for the control stack, ' +
    'and the GPU writes past it (instead: another kernel)';
  assert.deepEqual(await facts('7.2.13'), [
    { release: '7.2.13', is_read: true, nearest_read: '7.2.13' },
    [reason],
  ]);
  const other = '6.11.0-9-generic';
  assert.deepEqual(await facts(other), [
    { release: other, is_read: false, nearest_read: '6.12.107' },
    [],
  ]);
  assert.ok(
    (await report('7.2.13', 'table')).includes(`QUEUES THAT DO NOT COME BACK\n0        ${reason}`),
  );
  assert.match(await report('7.2.13', 'tree'), /Not restorable: compute queues 4, 5 on a gfx90a/);
  assert.match(await report(other, 'tree'), /nobody has read its driver; nearest: 6\.12\.107/);
  assert.doesNotMatch(await report(other, 'table'), /DO NOT COME BACK/);
});

test('inspect warns of the trap handler that compute queues lose, and only then', async (t) => {
  const withQueue = async (type: number) => {
    const { files } = gpuCheckpoint();
    const queue = { id: 4, gpuId: 51966, ringBytes: 65536, priority: 7, mqd: 8, controlStack: 0 };
    const none = { bos: [], vmas: 0, events: [], ranges: [] };
    const state = stateBytes({ ...none, devices: 2, queues: [{ ...queue, type }] });
    return archive(t, { ...files, 'checkpoint/kfd-state-0.img': state });
  };
  const compute = await withQueue(0);
  const warning = '[7] worker, compute queues: 1: a restore loses the trap handler of ROCr: ';
  const { warnings } = JSON.parse((await cli(['inspect', compute, '--format', 'json'])).stdout);
  assert.equal(warnings.length, 1);
  assert.ok(warnings[0].startsWith(warning), warnings[0]);
  for (const format of ['table', 'tree']) {
    const { stdout } = await cli(['inspect', compute, '--format', format]);
    assert.ok(stdout.includes(`Warning: ${warning}`), stdout);
  }
  assert.doesNotMatch((await cli(['inspect', await withQueue(1)])).stdout, /Warning/);
});

test('inspect shows what render files hold: GEM handles, contexts, BO lists', async (t) => {
  const { files, manifest } = gpuCheckpoint();
  const name = 'render-state-2.img';
  manifest.ext_files.push({ criu_id: 77, kind: 'drm', process: 0, gpu: 0, render_state: name });
  manifest.ext_files.push({ criu_id: 78, kind: 'dmabuf', process: 0, buffer: 0 });
  manifest.files.push({ ...(manifest.files[0] as object), name } as never);
  files['checkpoint/kfd-manifest.json'] = encodeManifest(manifest);
  files[`checkpoint/${name}`] = 'RENDER 2 65536';
  const report = async (format: string) =>
    (await cli(['inspect', await archive(t, files), '--format', format])).stdout;
  const renderFiles = async () => {
    const { processes } = JSON.parse(await report('json')) as {
      processes: { render_files: { criu_id: number }[] }[];
    };
    return processes[0]?.render_files ?? [];
  };
  const [carrier, own, ...others] = await renderFiles();
  assert.deepEqual(others, [], 'a dma-buf is no render file');
  const nothing = { handles: [], contexts: 0, bo_lists: 0, gpu_mappings: 0 };
  assert.deepEqual(carrier, { criu_id: carrier?.criu_id, gpu: 0, carries_kfd: true, ...nothing });
  assert.deepEqual(own, {
    criu_id: 77,
    gpu: 0,
    carries_kfd: false,
    handles: [{ handle: 3, kind: 'vram', size: 65536 }],
    contexts: 2,
    bo_lists: 1,
    gpu_mappings: 4,
  });
  assert.match(
    await report('tree'),
    /Render file 77: GPU 0, 1 GEM handles, 4 GPU mappings, 2 contexts, 1 BO lists\n.*3: vram, 64\.0 KiB\n/,
  );
  assert.match(await report('table'), /^0 +7 +worker +0,1 +24 +- +- +1 /m);

  files[`checkpoint/${name}`] = 'damaged';
  assert.deepEqual((await renderFiles())[1], { criu_id: 77, gpu: 0, carries_kfd: false });
  assert.match(await report('tree'), /Render file 77: GPU 0, cannot be read\n/);
  assert.match(await report('table'), /^0 +7 +worker +0,1 +24 +- +- +- /m);
});
