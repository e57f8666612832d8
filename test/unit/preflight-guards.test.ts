/** Damage that each check of the pre-flight alone finds. */

import assert from 'node:assert/strict';
import { truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { manifestLimits } from '../../src/manifest/schema.js';
import { native } from '../../src/native.js';
import { preflight } from '../../src/session/restore/preflight.js';
import {
  buffers,
  content,
  describeFiles,
  gpuIds,
  kfdBos,
  names,
  type Parts,
  soundParts,
} from './forged-image.js';
import { pagesFile } from './forged-pages.js';
import { renderStateFile, stateFile } from './forged-state.js';
import { ready, refusal, written } from './written-image.js';

const second = 'render-state-1.img';

/** A second render file, on the second GPU, with two BOs. The manifest has it first. */
function twoRenderFiles(parts: Parts): void {
  const { manifest, files } = parts;
  const bos = [1, 2].map((handle) => ({ handle, size: 4096 }));
  files.set(second, renderStateFile({ ordinal: 1, bos }));
  const held = [5, 6].map((id) => ({ id, frames: [{ raw: content(id, 4096) }] }));
  files.set(names.second, pagesFile({ gpu: 1, buffers: [...(buffers[1] ?? []), ...held] }).file);
  const at = { process: 0, gpu: 1, pages_file: names.second, size: 4096, kind: 'vram' } as const;
  manifest.buffers.push({ id: 5, bo_index: 5, ...at }, { id: 6, bo_index: 6, ...at });
  const file = { criu_id: 7, kind: 'render', process: 0, gpu: 1, render_state: second } as const;
  manifest.ext_files = [file, ...manifest.ext_files];
  Object.assign(manifest.processes[0] as object, { num_bos: 7 });
  describeFiles(parts);
}

test('preflight: BOs of several render files follow each other in the order of the files’ numbers', async (t) => {
  const parts = soundParts();
  twoRenderFiles(parts);
  const plan = await ready(t, parts);
  assert.deepEqual(
    plan?.processes[0]?.renderStates.map(({ file, gpuId, firstBo, bos }) => [
      [file.criu_id, gpuId],
      [firstBo, bos],
    ]),
    [
      [
        [6, gpuIds[0]],
        [4, 1],
      ],
      [
        [7, gpuIds[1]],
        [5, 2],
      ],
    ],
  );
});

test('preflight: a render state under another name, or with too many BOs, is refused', async (t) => {
  const corrupt = 'E_IMAGE_CORRUPT';
  const renamed = await refusal(t, (parts) => {
    parts.files.set(
      names.render,
      renderStateFile({ ordinal: 3, bos: [{ handle: 3, size: 4096 }] }),
    );
    describeFiles(parts);
  });
  assert.equal(renamed, `${corrupt} render-state-0.img: belongs to render-state-3.img`);
  const counted = await refusal(t, ({ manifest }) => {
    Object.assign(manifest.processes[0] as object, { num_bos: 6 });
  });
  const reason = 'number of BOs is 5, the manifest says 6';
  assert.equal(counted, `${corrupt} kfd-state-0.img: ${reason}`);
});

test('preflight: a process that would wait for itself is refused', async (t) => {
  const refused = await refusal(t, (parts) => {
    const { manifest, files } = parts;
    // BO 1 of KFD is to be the buffer of a render file, which is made later.
    manifest.buffers = manifest.buffers.filter(({ id }) => id !== 1);
    const owner = manifest.buffers.find(({ id }) => id === 3);
    Object.assign(owner ?? {}, { kind: 'vram', size: 4096 });
    manifest.shares = [{ process: 0, bo_index: 1, buffer: 3 }];
    const bos = kfdBos.map((bo, i) => (i === 1 ? { ...bo, flags: 1 } : bo));
    const devices = gpuIds.map((id) => [id, id] as const);
    // As the kernel has it: 8 bytes, 8 for each GPU, 272 for each BO with the number of its handle at 8.
    const priv = Buffer.alloc(8 + 8 * devices.length + 272 * bos.length);
    bos.forEach((_, i) => void priv.writeUInt32LE(i, 8 + 8 * devices.length + 272 * i + 8));
    files.set(names.state, stateFile({ devices, bos, priv }));
    const left = (buffers[0] ?? []).filter(({ id }) => id !== 1);
    files.set(names.first, pagesFile({ buffers: left }).file);
    describeFiles(parts);
  });
  assert.equal(
    refused,
    'E_IMAGE_CORRUPT kfd-state-0.img: share buffers that none could make first',
  );
});

test('preflight: a state file has a limit, a pages file has none', async (t) => {
  const refused = async (name: string, size: number) => {
    const parts = soundParts();
    const file = parts.manifest.files.find((one) => one.name === name);
    Object.assign(file ?? {}, { size });
    const [directory, host] = await written(t, parts);
    await truncate(join(directory, name), size);
    const error = await preflight(directory, {}, host).then(
      () => assert.fail('it was accepted'),
      (reason: Error) => reason,
    );
    return error.message;
  };
  const limit = manifestLimits.stateBytes;
  const over = `larger than ${limit} bytes`;
  assert.equal(await refused(names.state, limit + 1), `${names.state}: ${over}`);
  assert.ok(!(await refused(names.first, limit + 1)).includes(over));
});

test('preflight: without other words it looks at this host, and at the KFD of this host', async (t) => {
  const [directory] = await written(t, soundParts());
  const version = t.mock.method(native(), 'kfdVersion', () => ({ major: 97, minor: 3 }));
  const here = { message: /kfd version: recorded on 1\.17, this host has 97\.3/ };
  await assert.rejects(preflight(directory, {}), here);
  version.mock.mockImplementation(() => {
    throw Object.assign(new Error('no KFD'), { code: 'KFD_IO' });
  });
  await assert.rejects(preflight(directory, {}), (error: Error) => {
    assert.match(error.message, /kernel release: /);
    assert.doesNotMatch(error.message, /kfd version/);
    return true;
  });
});
