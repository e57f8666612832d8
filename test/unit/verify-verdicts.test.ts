/** Verdicts of a verification on files by themselves: what the native reader says, and what becomes of it. */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { ImageVerifier } from '../../src/archive/verifier.js';
import { verifyCheckpoint } from '../../src/archive/verify.js';
import { KfdError } from '../../src/errors.js';
import {
  entriesOf,
  type Files,
  fakeVerifier,
  gpuCheckpoint,
  tarOf,
  zstdProgram,
} from './archive-builder.js';
import { temporaryFolder } from './paths.js';

const first = 'amdgpu-pages-0-0000.img';
const second = 'amdgpu-pages-0-0001.img';
const state = 'kfd-state-0.img';

/** What `over` makes of a checkpoint, plain and compressed: both must say the same. */
async function verdicts(t: TestContext, files: Files, over: Partial<ImageVerifier>) {
  const folder = await temporaryFolder(t);
  const tar = await tarOf(entriesOf(files));
  const reports = [];
  for (const bytes of [tar, gzipSync(tar)]) {
    const path = join(folder, `${reports.length}.tar`);
    await writeFile(path, bytes);
    const verifier = { ...fakeVerifier, ...over };
    const { files, problems } = await verifyCheckpoint(path, {
      zstdDecoder: zstdProgram,
      verifier,
    });
    const byName = Object.fromEntries(files.map((file) => [file.name, file.problems]));
    reports.push({ byName, problems });
  }
  assert.deepEqual(reports[1], reports[0]);
  return reports[0] as (typeof reports)[number];
}

function unsealed(files: Files): Files {
  const { 'checkpoint/kfd-manifest.json': _, ...rest } = files;
  return rest;
}

const lost = 'the manifest is missing: the checkpoint was never finished';

test('verify: a reference that leads nowhere is told of its file, or beside it', async (t) => {
  const { files } = gpuCheckpoint();
  files[`checkpoint/${second}`] = 'x'.repeat(19);
  const problems = [
    { process: 0, gpu: 0, reason: 'no content A' },
    { process: 0, gpu: 1, reason: 'no content B' },
    { process: 3, gpu: 0, reason: 'no content C' },
  ];
  const found = await verdicts(t, files, { siblingCheck: () => ({ problems: () => problems }) });
  assert.deepEqual(found.byName[first], ['no content A']);
  // This one has a problem of its own, and the third is not there.
  assert.deepEqual(found.byName[second], ['pages file: frame 0: wrong checksum']);
  assert.deepEqual(found.problems, [
    `${second}: no content B`,
    'amdgpu-pages-3-0000.img: no content C',
  ]);
});

test('verify: a state file whose head is refused is not read further', async (t) => {
  const { files } = gpuCheckpoint();
  const long = { ...unsealed(files), [`checkpoint/${state}`]: 'STATE'.padEnd(5000) };
  const heads: [bytes: number, size: number][] = [];
  const found = await verdicts(t, long, {
    stateHead: (head, size) => {
      heads.push([head.length, size]);
      throw new KfdError('E_IMAGE_CORRUPT', 'state file: counts');
    },
    stateFacts: () => assert.fail('it was decoded'),
  });
  assert.deepEqual(found, {
    byName: { [first]: [], [second]: [], [state]: ['state file: counts'] },
    problems: [lost],
  });
  assert.deepEqual(heads, Array(2).fill([128, 5000]));
});

test('verify: a fault of ours is none of the checkpoint', async (t) => {
  const fault = (code: 'E_INTERNAL' | 'E_IO') => () => {
    throw new KfdError(code, 'the reader');
  };
  const { files } = gpuCheckpoint();
  const internal = { code: 'E_INTERNAL', message: 'the reader' };
  await assert.rejects(verdicts(t, files, { stateFacts: fault('E_INTERNAL') }), internal);
  const { byName } = await verdicts(t, files, { stateFacts: fault('E_IO') });
  assert.deepEqual(byName[state], ['the reader']);
});

test('verify: 2^22 records are kept of all files together; more are told, with a wrong digest', async (t) => {
  const most = 1 << 22;
  const many = (records: number): Partial<ImageVerifier> => ({
    stateFacts: (bytes) => {
      const facts = fakeVerifier.stateFacts(Buffer.from('STATE'));
      assert.equal(bytes.length, 5);
      const bos = { sizes: new Float64Array(records), kinds: new Uint8Array(records) };
      return { ...facts, bos };
    },
  });
  // Two buffers of the first pages file, and one of the second.
  const { files } = gpuCheckpoint();
  const full = await verdicts(t, unsealed(files), many(most - 3));
  assert.deepEqual(full.byName[state], []);
  const over = await verdicts(t, unsealed(files), many(most - 2));
  assert.deepEqual(over.byName[state], ['more than can be checked']);
  files[`checkpoint/${state}`] = 'OTHER';
  const { byName } = await verdicts(t, files, many(most - 2));
  const [reason, digest, ...others] = byName[state] ?? [];
  assert.deepEqual([reason, others], ['more than can be checked', []]);
  assert.match(digest ?? '', /^sha256 is [0-9a-f]{64}, the manifest says [0-9a-f]{64}$/);
});
