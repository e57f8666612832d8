/** Which engine copies. There is no GPU here: SDMA cannot be set up, and files play buffers for the CPU. */

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Config, defaultConfig } from '../../src/config.js';
import { readHost } from '../../src/gpu/host.js';
import { createLogger } from '../../src/log.js';
import { type DrainPart, drain } from '../../src/session/contents/drain.js';
import { cpuSeconds } from '../../src/session/contents/engine.js';
import { HostBudget, takeSnapshot } from '../../src/session/contents/snapshot.js';
import { HostStaging } from '../../src/session/contents/staging.js';
import { Transfers } from '../../src/session/contents/transfers.js';
import { kfdVersion } from './dumped.js';
import { fixtures, temporaryFolder } from './paths.js';
import { received } from './received.js';
import { bentHost } from './sysfs-tree.js';

const name = 'amdgpu-pages-0-0000.img';
const mib = 2 ** 20;

async function sample(t: TestContext, bend: Partial<Config>, hidden = false) {
  const folder = await temporaryFolder(t);
  const [found] = (await readHost({ root: join(fixtures, 'sysfs/two-gpus'), kfdVersion })).gpus;
  assert.ok(found);
  await writeFile(join(folder, 'buffer'), Buffer.alloc(mib, 7));
  const [dmabuf] = await received(t, [join(folder, 'buffer')]);
  assert.ok(dmabuf);
  const buffer = { id: 0, process: 0, bo_index: 0, gpu: 0, size: mib, pages_file: name } as const;
  const part = {
    ...{ process: 0, gpu: { ...found, vramHidden: hidden }, name },
    ...{ buffers: [{ ...buffer, kind: 'vram' }] as const, places: [{ dmabuf }] },
  } satisfies DrainPart;
  const config = { ...defaultConfig(), ...bend };
  const logFile = join(folder, 'log');
  const log = createLogger({ file: logFile });
  const transfers = new Transfers(new HostStaging(config, log, join(folder, 'staging')));
  transfers.expect(() => [{ name, process: 0, renderNode: '/dev/dri/renderD128', bytes: mib }]);
  return { context: { config, log, image: folder, contents: folder, transfers }, part, logFile };
}

const noSdma = 'SDMA: /dev/dri/renderD128: No such file or directory';

test('auto: the CPU copies where SDMA cannot be set up, and says why', async (t) => {
  const { context, part, logFile } = await sample(t, {});
  const { result, engineReason } = await drain(context, part);
  assert.equal(result.engine, 'cpu');
  assert.equal(engineReason, noSdma);
  assert.equal(context.transfers.progress()[0]?.engineReason, noSdma);
  const lines = (await readFile(logFile, 'utf8')).trim().split('\n');
  const [warning] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.equal(warning?.['msg'], 'the CPU copies');
  assert.equal(warning?.['level'], 'warn');
  assert.equal(warning?.['reason'], noSdma);
});

test('auto: the CPU does not copy where that may last longer than gate_timeout_s', async (t) => {
  const { context, part } = await sample(t, { gate_timeout_s: 1 });
  const many = Array<(typeof part.buffers)[number]>(64).fill(part.buffers[0]);
  await assert.rejects(drain(context, part, undefined, undefined, many), {
    code: 'E_GPU_IO',
    message: `${name}: ${noSdma}; the CPU may need 3 s for renderD128, and gate_timeout_s is 1`,
  });
});

test('the CPU never copies VRAM that it does not see, but all else', async (t) => {
  const hidden = /the CPU does not see all VRAM of renderD128 \(no large BAR\)$/;
  for (const engine of ['auto', 'cpu'] as const) {
    const { context, part } = await sample(t, { engine }, true);
    assert.equal(await takeSnapshot(context, part, new HostBudget(64)), undefined);
    await assert.rejects(drain(context, part), { code: 'E_GPU_IO', message: hidden });
  }
  const { context, part } = await sample(t, {}, true);
  const gtt = { ...part, buffers: part.buffers.map((one) => ({ ...one, kind: 'gtt' as const })) };
  assert.equal((await drain(context, gtt)).result.engine, 'cpu');
});

test('sdma: nothing replaces it; cpu: nothing is slow enough to be refused', async (t) => {
  const sdma = await sample(t, { engine: 'sdma' });
  await assert.rejects(drain(sdma.context, sdma.part), {
    code: 'E_GPU_IO',
    message: `${name}: ${noSdma}`,
  });
  const cpu = await sample(t, { engine: 'cpu', gate_timeout_s: 1 });
  const many = Array<(typeof cpu.part.buffers)[number]>(64).fill(cpu.part.buffers[0]);
  const drained = await drain(cpu.context, cpu.part, undefined, undefined, many);
  assert.equal(drained.result.engine, 'cpu');
  assert.equal(drained.engineReason, undefined);
});

test('without SDMA nothing is copied aside, and the drain decides', async (t) => {
  const { context, part } = await sample(t, {});
  const budget = new HostBudget(64, 2 ** 40);
  assert.equal(await takeSnapshot(context, part, budget), undefined);
  assert.equal(budget.take(64 * mib), 64 * mib);
  assert.equal((await drain(context, part)).result.engine, 'cpu');
});

test('the CPU reads VRAM slowly, writes it faster, and GTT is memory', () => {
  const seconds = (operation: 'drain' | 'upload', kind: 'vram' | 'gtt') =>
    cpuSeconds({ operation, buffers: [{ size: 3e9, kind }] });
  assert.equal(seconds('drain', 'vram'), 100);
  assert.equal(seconds('upload', 'vram'), 6);
  assert.equal(seconds('drain', 'gtt') + seconds('upload', 'gtt'), 6);
});

test('VRAM is hidden with a private bank, or when less is visible than there is', async (t) => {
  const hidden = async (changes: Record<string, string>) => {
    const root = await bentHost(t, 'one-gpu', changes);
    return (await readHost({ root })).gpus[0]?.vramHidden;
  };
  const node = 'sys/class/kfd/kfd/topology/nodes/1';
  const visible = 'sys/devices/pci0000:00/0000:03:00.0/mem_info_vis_vram_total';
  assert.equal(await hidden({}), false);
  assert.equal(await hidden({ [visible]: '68702699520\n' }), false);
  assert.equal(await hidden({ [visible]: '268435456\n' }), true);
  const bank = 'heap_type 2\nsize_in_bytes 68702699520\n';
  assert.equal(await hidden({ [`${node}/mem_banks/0/properties`]: bank }), true);
});
