import assert from 'node:assert/strict';
import { rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { preflight } from '../../src/session/restore/preflight.js';
import { buffers, content, describeFiles, names, type Parts, soundParts } from './forged-image.js';
import { pagesFile } from './forged-pages.js';
import { stateFile } from './forged-state.js';
import { temporaryFolder } from './paths.js';
import { ready, refusal, written } from './written-image.js';

test('preflight: a sound image with files of every kind is ready', async (t) => {
  const plan = await ready(t, soundParts());
  const [process] = plan?.processes ?? [];
  assert.equal(process?.kfdBos, 4);
  assert.deepEqual(
    process.renderStates.map(({ firstBo, bos }) => [firstBo, bos]),
    [[4, 1]],
  );
});

test('preflight: a sound pages file that is not the manifest’s is refused', async (t) => {
  const other = pagesFile({ gpu: 1, buffers: [{ id: 2, frames: [{ raw: content(9) }] }] }).file;
  assert.equal(
    await refusal(t, ({ files }) => files.set(names.second, other)),
    'E_IMAGE_CORRUPT amdgpu-pages-0-0001.img: its index does not match the digest in the manifest',
  );
});

test('preflight: a pages file must be of its process, its GPU, and its buffers', async (t) => {
  const replaced = (file: Buffer) => (parts: Parts) => {
    parts.files.set(names.second, file);
    describeFiles(parts);
  };
  const foreign = pagesFile({ process: 7, gpu: 1, buffers: buffers[1] ?? [] }).file;
  assert.match(
    await refusal(t, replaced(foreign)),
    /^E_IMAGE_CORRUPT amdgpu-pages-0-0001\.img: belongs to amdgpu-pages-7-0001\.img/,
  );
  const renamed = pagesFile({ gpu: 1, buffers: [{ id: 9, frames: [{ raw: content(4) }] }] }).file;
  assert.match(await refusal(t, replaced(renamed)), /0001\.img: buffer 9 is not in the manifest/);
  const short = pagesFile({
    gpu: 1,
    buffers: [{ id: 2, frames: [{ raw: content(4, 4096) }] }],
  }).file;
  assert.match(await refusal(t, replaced(short)), /0001\.img: size of buffer 2 is 4096/);
  const none = pagesFile({ gpu: 1, buffers: [] }).file;
  assert.match(await refusal(t, replaced(none)), /0001\.img: number of buffers is 0/);
});

test('preflight: a reference to a sibling that is not there is refused', async (t) => {
  const frames = [{ like: content(4), sibling: 7n }]; // of process 0 on GPU 0, which has four frames
  assert.match(
    await refusal(t, (parts) => {
      parts.files.set(names.second, pagesFile({ gpu: 1, buffers: [{ id: 2, frames }] }).file);
      describeFiles(parts);
    }),
    /^E_IMAGE_CORRUPT amdgpu-pages-0-0001\.img: refers to frame 7 of amdgpu-pages-0-0000\.img: there/,
  );
});

test('preflight: shared buffers of KFD need private data of a known layout', async (t) => {
  const sharing = (index: number) => (parts: Parts) => {
    const { manifest } = parts;
    const share = manifest.buffers.find(({ bo_index }) => bo_index === index);
    assert.ok(share);
    const left = buffers[0]?.filter(({ id }) => id !== share.id) ?? [];
    manifest.buffers = manifest.buffers.filter(({ id }) => id !== share.id);
    manifest.shares = [{ process: 0, bo_index: index, buffer: 0 }];
    parts.files.set(names.first, pagesFile({ buffers: left }).file);
    describeFiles(parts);
  };
  // The state has no private data.
  assert.match(
    await refusal(t, sharing(1)),
    /^E_UNSUPPORTED_STATE kfd-state-0\.img: KFD state: its/,
  );
  // BOs of render files are in no private data.
  assert.match(await refusal(t, sharing(4)), /^E_IMAGE_CORRUPT kfd-state-0\.img: BO 4 is vram of/);
});

test('preflight: links in place of files are not followed', async (t) => {
  for (const name of [names.state, names.first]) {
    const [directory, host] = await written(t, soundParts());
    const elsewhere = join(await temporaryFolder(t), name);
    await rename(join(directory, name), elsewhere);
    await symlink(elsewhere, join(directory, name));
    await assert.rejects(preflight(directory, {}, host), {
      code: 'E_IMAGE_CORRUPT',
      message: `${name}: not a regular file`,
    });
  }
});

test('preflight: states are read again when they are needed, and compared again', async (t) => {
  const parts = soundParts();
  const [directory, host] = await written(t, parts);
  const plan = await preflight(directory, {}, host);
  const [process] = plan?.processes ?? [];
  const [render] = process?.renderStates ?? [];
  assert.ok(process && render);
  assert.ok((await process.readState()).equals(parts.files.get(names.state) ?? Buffer.of()));
  assert.ok((await render.readState()).equals(parts.files.get(names.render) ?? Buffer.of()));
  for (const name of [names.state, names.render]) await writeFile(join(directory, name), 'other');
  const another = { code: 'E_IMAGE_CORRUPT', message: /does not match its digest/ };
  await assert.rejects(process.readState(), another);
  await assert.rejects(render.readState(), another);
});

test('preflight: the memory does not grow with the number of processes', async (t) => {
  const parts = soundParts();
  const bytes = 4 << 20;
  const { manifest, files } = parts;
  const [first] = manifest.processes;
  assert.ok(first);
  for (let ordinal = 1; ordinal <= 16; ordinal++) {
    const name = `kfd-state-${ordinal}.img`;
    files.set(name, stateFile({ ordinal, priv: Buffer.alloc(bytes) }));
    manifest.processes.push({ ...first, ordinal, state_file: name, num_bos: 0 });
  }
  describeFiles(parts);
  const [directory, host] = await written(t, parts);
  files.clear();
  setFlagsFromString('--expose_gc');
  const collect = runInNewContext('gc') as () => void;
  const held = async () => {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 100));
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const before = await held();
  const plan = await preflight(directory, {}, host);
  const grown = (await held()) - before;
  assert.ok(grown < 2 * bytes, `${grown} bytes`);
  assert.equal(plan?.processes.length, 17);
});

test('preflight: many processes, buffers and shares take no time', async (t) => {
  const parts = soundParts();
  const { manifest, files } = parts;
  const [first] = manifest.processes;
  const count = 1000;
  assert.ok(first);
  const bos = Array.from({ length: 200 }, () => ({ size: 4096, flags: 2 }));
  // The private data: a record of 272 bytes for each BO, with the number of its handle at 8.
  const priv = Buffer.alloc(8 + 272 * bos.length);
  bos.forEach((_, i) => void priv.writeUInt32LE(i, 16 + 272 * i));
  for (let ordinal = 1; ordinal <= count; ordinal++) {
    const name = `kfd-state-${ordinal}.img`;
    files.set(name, stateFile({ ordinal, bos, priv }));
    manifest.processes.push({ ...first, ordinal, state_file: name, num_bos: bos.length });
  }
  // All of them are handles of one buffer of the first process: 200,000 shares.
  manifest.shares = manifest.processes
    .slice(1)
    .flatMap(({ ordinal }) => bos.map((_, i) => ({ process: ordinal, bo_index: i, buffer: 1 })));
  describeFiles(parts);
  const [directory, host] = await written(t, parts);
  // Time of the processor: on a full machine the clock says nothing.
  const start = process.cpuUsage();
  const plan = await preflight(directory, {}, host);
  assert.equal(plan?.processes.length, count + 1);
  const { user, system } = process.cpuUsage(start);
  const seconds = (user + system) / 1e6;
  assert.ok(seconds < 15, `${seconds} s`);
});
