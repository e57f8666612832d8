/** Contents on their way into pages files, with the CPU as engine: copied aside, and read where they are. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { defaultConfig } from '../../src/config.js';
import { readHost } from '../../src/gpu/host.js';
import { createLogger } from '../../src/log.js';
import { type Descriptor, native } from '../../src/native.js';
import { checkSiblings } from '../../src/session/buffers/siblings.js';
import { type DrainedFile, type DrainPart, renderNode } from '../../src/session/contents/drain.js';
import { DumpContents } from '../../src/session/contents/dump-contents.js';
import { HostBudget, vramOrHost } from '../../src/session/contents/snapshot.js';
import { HostStaging, stagingRing } from '../../src/session/contents/staging.js';
import { Transfers } from '../../src/session/contents/transfers.js';
import type { SessionContext } from '../../src/session/context.js';
import { kfdVersion } from './dumped.js';
import { fixtures, temporaryFolder } from './paths.js';
import { received } from './received.js';

const mib = 2 ** 20;
/** Bytes of the buffers of each process. */
const sizes = [
  [mib - 8192, 8192],
  [3 * mib, 4096],
];

interface Sample {
  readonly context: SessionContext;
  readonly parts: DrainPart[];
  /** What the buffers held when the test began, by name of the pages file. */
  readonly before: ReadonlyMap<string, readonly Buffer[]>;
  /** What a tree that continues does to its buffers. */
  overwrite(): Promise<void>;
}

async function sample(
  t: TestContext,
  freezeHostMib: number,
  contentsOfEach = sizes.map((each) => each.map((size) => randomBytes(size))),
): Promise<Sample> {
  const folder = await temporaryFolder(t);
  const { gpus } = await readHost({ root: join(fixtures, 'sysfs/two-gpus'), kfdVersion });
  const gpu = gpus[0];
  assert.ok(gpu);
  const paths: string[] = [];
  const before = new Map<string, Buffer[]>();
  const parts: DrainPart[] = [];
  for (const [process, contents] of contentsOfEach.entries()) {
    const name = `amdgpu-pages-${process}-0000.img`;
    const own = contents.map((_, i) => join(folder, `${process}-${i}`));
    await Promise.all(own.map((path, i) => writeFile(path, contents[i] as Buffer)));
    const places = (await received(t, own)).map((dmabuf) => ({ dmabuf }));
    const buffers = contents.map(({ length: size }, i) => ({
      ...{ id: 2 * process + i, process, bo_index: i, gpu: 0, size },
      ...({ kind: 'vram', pages_file: name } as const),
    }));
    parts.push({ process, gpu, name, buffers, places });
    before.set(name, contents);
    paths.push(...own);
  }
  const config = { ...defaultConfig(), engine: 'cpu', freeze_host_mib: freezeHostMib } as const;
  const log = createLogger({ level: 'silent' });
  const transfers = new Transfers(new HostStaging(config, log, join(folder, 'staging')));
  const context = { config, image: folder, contents: folder, log, transfers };
  const overwrite = async () => {
    for (const path of paths) await writeFile(path, Buffer.alloc((await stat(path)).size, 0x5a));
  };
  return { context: context as unknown as SessionContext, parts, before, overwrite };
}

/** What a restore would get out of a pages file. */
async function contentsOf(t: TestContext, { name, buffers, gpu }: DrainedFile, image: string) {
  const folder = await temporaryFolder(t);
  const paths = buffers.map(({ id }) => join(folder, String(id)));
  await Promise.all(paths.map((path, i) => writeFile(path, Buffer.alloc(buffers[i]?.size ?? 0))));
  const dmabufs = await received(t, paths);
  const job = new (native().TransferJob)({
    operation: 'upload',
    path: join(image, name),
    renderNode: renderNode(gpu),
    engine: 'cpu',
    ...stagingRing(defaultConfig()),
    buffers: buffers.map(({ id, size }, i) => ({ id, size, dmabuf: dmabufs[i] as Descriptor })),
  });
  await job.done;
  return Promise.all(paths.map((path) => readFile(path)));
}

async function assertAsBefore(t: TestContext, { context, before }: Sample, contents: DumpContents) {
  const files = await contents.drained;
  assert.deepEqual(
    files.map(({ name }) => name),
    [...before.keys()],
  );
  for (const file of files) {
    assert.deepEqual(await contentsOf(t, file, context.image), before.get(file.name), file.name);
  }
}

test('what was copied aside is saved as it was, whatever the tree does afterwards', async (t) => {
  const all = await sample(t, 64);
  const contents = new DumpContents(all.context, all.parts, undefined, true);
  await contents.released;
  await all.overwrite();
  await delay(100);
  const names = await readdir(all.context.image);
  assert.ok(!names.some((name) => name.startsWith('amdgpu-pages-')), 'drained before that');
  contents.treeGoesOn();
  await assertAsBefore(t, all, contents);
  assert.deepEqual(contents.copied, { vram: 0, host: 4 * mib + 4096, none: 0 });
  const { snapshot = 0, drain = 0, drain_overlapped: overlapped = 0 } = contents.timings(0);
  assert.ok(
    0 < snapshot && snapshot <= drain,
    `copied after ${snapshot} us, drained after ${drain}`,
  );
  assert.ok(overlapped <= drain);
});

test('what another process has is stored once, copied aside or not', async (t) => {
  const weights = [randomBytes(3 * mib), randomBytes(8192)];
  for (const aside of [true, false]) {
    const all = await sample(t, 64, [weights, weights]);
    const contents = new DumpContents(all.context, all.parts, undefined, aside);
    contents.treeGoesOn();
    const [first, second] = await contents.drained;
    assert.equal(first?.result.siblings, 0);
    assert.equal(second?.result.siblings, second?.result.frames);
    assert.ok((second?.result.fileBytes ?? mib) < 10_000);
    assert.equal(second?.result.stages.file.bytes, 0);
    await assertAsBefore(t, all, contents);
    const files = (await contents.drained).map(({ name, result }) => ({ name, summary: result }));
    assert.doesNotThrow(() => checkSiblings(all.context.image, files));
    await rm(join(all.context.image, 'amdgpu-pages-0-0000.img'));
    assert.throws(() => checkSiblings(all.context.image, files.slice(1)), {
      code: 'E_IMAGE_CORRUPT',
      message: /^amdgpu-pages-1-0000\.img: refers to frame 0 of amdgpu-pages-0-0000\.img/,
    });
    assert.throws(() => checkSiblings(all.context.image, files), { code: 'E_IO' });
    const [, alone] = await contents.drained;
    assert.ok(alone);
    await assert.rejects(contentsOf(t, alone, all.context.image), { code: 'KFD_CORRUPT' });
  }
});

test('a process alone has no feature for the files of others', async (t) => {
  const all = await sample(t, 64, [[randomBytes(mib), randomBytes(4096)]]);
  const contents = new DumpContents(all.context, all.parts, undefined, false);
  const [file] = await contents.drained;
  const bytes = await readFile(join(all.context.image, file?.name ?? ''));
  assert.equal(bytes.readUInt32LE(16) & (1 << 5), 0);
});

test('what has no room beside is saved before the tree continues', async (t) => {
  const all = await sample(t, 1);
  const contents = new DumpContents(all.context, all.parts, undefined, true);
  await contents.released;
  await all.overwrite();
  contents.treeGoesOn();
  await assertAsBefore(t, all, contents);
  assert.deepEqual(contents.copied, { vram: 0, host: mib, none: 3 * mib + 4096 });
});

test('where the tree does not continue, nothing is copied aside', async (t) => {
  const all = await sample(t, 64);
  const contents = new DumpContents(all.context, all.parts, undefined, false);
  await contents.released;
  await all.overwrite();
  await assertAsBefore(t, all, contents);
  assert.equal(contents.timings(0)['snapshot'], undefined);
});

test('a cancel ends copies and drains', async (t) => {
  for (const aside of [true, false]) {
    const { context, parts } = await sample(t, 64);
    const contents = new DumpContents(context, parts, undefined, aside);
    context.transfers.cancel();
    await contents.end();
    await assert.rejects(contents.released, { code: 'E_CANCELLED' });
    await assert.rejects(contents.drained, { code: 'E_CANCELLED' });
    await assert.rejects(contents.drained, { code: 'E_CANCELLED' });
  }
});

test('copies take what they may of host memory, and half of what is free at most', () => {
  const budget = new HostBudget(8, 2 ** 40);
  assert.equal(budget.take(5 * mib), 5 * mib);
  assert.equal(budget.take(3 * mib + 1), 0);
  assert.equal(budget.take(3 * mib), 3 * mib);
  assert.equal(budget.take(1), 0);
  budget.giveBack(3 * mib);
  assert.equal(budget.take(2 * mib), 2 * mib);
  const short = new HostBudget(8, 10 * mib);
  assert.equal(short.take(5 * mib + 1), 0);
  assert.equal(short.take(5 * mib), 5 * mib);
  assert.equal(new HostBudget(0, 2 ** 40).take(1), 0);
});

test('host memory is taken by those copies alone that found no VRAM', async () => {
  const budget = new HostBudget(1, 2 << 20);
  const never = () => false;
  const asked: number[] = [];
  const copyOf = (vram: boolean) => async (hostBytes: number) => {
    asked.push(hostBytes);
    // Others are copied at the same time.
    await delay(1);
    return {
      place: vram ? ('vram' as const) : hostBytes > 0 ? ('host' as const) : ('none' as const),
    };
  };
  const all = await Promise.all(
    [true, false, true].map((vram) => vramOrHost(1 << 20, budget, copyOf(vram), never)),
  );
  assert.deepEqual(
    all.map(({ place }) => place),
    ['vram', 'host', 'vram'],
  );
  assert.deepEqual(asked, [0, 0, 0, 1 << 20]);
  assert.equal((await vramOrHost(4096, budget, copyOf(false), never)).place, 'none');
  assert.deepEqual(asked.slice(4), [0], 'no budget is left');
  budget.giveBack(1 << 20);
  assert.equal((await vramOrHost(4096, budget, copyOf(false), () => true)).place, 'none');
  assert.deepEqual(asked.slice(5), [0], 'no engine is there');
});
