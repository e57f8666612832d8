/** What each file of a checkpoint says of itself, against what the manifest says of it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boKinds } from '../../src/addon/images.js';
import { alone, compareAll, type Seen } from '../../src/archive/verify-compare.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { fakeVerifier, gpuCheckpoint } from './archive-builder.js';

const first = 'amdgpu-pages-0-0000.img';
const second = 'amdgpu-pages-0-0001.img';
const state = 'kfd-state-0.img';
const root = '0123456789abcdef0123456789abcdef';
const others = 'f'.repeat(32);

/** The sample manifest, and facts about its files that go with it. */
function sound() {
  const { files, manifest } = gpuCheckpoint();
  const bytesOf = (name: string) => Buffer.from(files[`checkpoint/${name}`] ?? '');
  const pagesOf = (name: string) => {
    const check = fakeVerifier.pagesCheck();
    check.feed(bytesOf(name));
    return { size: bytesOf(name).length, pages: check.finish() };
  };
  const facts = fakeVerifier.stateFacts(bytesOf(state));
  return {
    manifest,
    first: pagesOf(first),
    second: pagesOf(second),
    state: { size: 5, state: facts },
  };
}
type Sound = ReturnType<typeof sound>;

function problemsOf({ manifest, ...files }: Sound, more: Record<string, Seen> = {}): string[] {
  const seen = new Map<string, Seen>([
    [first, files.first],
    [second, files.second],
    [state, files.state],
    ...Object.entries(more),
  ]);
  return compareAll(manifest, seen).flatMap(({ name, problems }) =>
    problems.map((problem) => `${name}: ${problem}`),
  );
}

test('each fact of a file that is not the one of the manifest is named', () => {
  assert.deepEqual(problemsOf(sound()), []);
  const pages = (over: object) => (of: Sound) => Object.assign(of.first.pages, over);
  const facts = (over: object) => (of: Sound) => Object.assign(of.state.state, over);
  const parent = (manifest: Manifest) => {
    manifest.parent = { archive: 'base.tar', files: [{ name: first, root: others }] };
  };
  const cases: readonly [bend: (of: Sound) => void, problem: string][] = [
    [pages({ root: others }), `${first}: digest is ${others}, the manifest says ${root}`],
    [pages({ process: 1 }), `${first}: process is 1, the manifest says 0`],
    [pages({ gpu: 1 }), `${first}: gpu is 1, the manifest says 0`],
    [pages({ parent: others }), `${first}: parent is ${others}, the manifest says none`],
    [({ manifest }) => parent(manifest), `${first}: parent is none, the manifest says ${others}`],
    [facts({ ordinal: 1 }), `${state}: process is 1, the manifest says 0`],
    [facts({ nsPid: 8 }), `${state}: pid in its namespace is 8, the manifest says 7`],
    [facts({ numObjects: 10 }), `${state}: number of objects is 10, the manifest says 9`],
  ];
  for (const [bend, problem] of cases) {
    const bent = sound();
    bend(bent);
    assert.deepEqual(problemsOf(bent), [problem]);
  }
});

test('a process without buffers has no BO with contents', () => {
  const bent = sound();
  const { bos } = bent.state.state;
  bent.manifest.buffers = [];
  bent.manifest.files = bent.manifest.files.filter(({ name }) => name === state);
  assert.match(
    problemsOf(bent).join(),
    /^kfd-state-0\.img: BO 3 has contents, the manifest has no/,
  );
  bos.kinds.fill(boKinds.indexOf('doorbell'));
  assert.deepEqual(problemsOf(bent), []);
});

test("BOs of render files follow the process's own in the order of the files' numbers", () => {
  const bent = sound();
  const { manifest } = bent;
  const [owner] = manifest.processes;
  Object.assign(owner as object, { num_bos: 26 });
  const sizes = [4096, 8192];
  const render = (ordinal: number): Seen => ({
    size: 1,
    renderState: fakeVerifier.renderStateFacts(Buffer.from(`RENDER ${ordinal} ${sizes[ordinal]}`)),
  });
  const pages = { process: 0, gpu: 0, kind: 'vram', pages_file: first } as const;
  for (const [i, size] of sizes.entries()) {
    manifest.buffers.push({ ...pages, id: 10 + i, bo_index: 24 + i, size });
  }
  const { bufferIds, bufferSizes } = bent.first.pages;
  Object.assign(bent.first.pages, {
    bufferIds: Uint32Array.of(...bufferIds, 10, 11),
    bufferSizes: Float64Array.of(...bufferSizes, ...sizes),
  });
  const named = ['render-state-0.img', 'render-state-1.img'];
  const seen = Object.fromEntries(named.map((name, ordinal) => [name, render(ordinal)]));
  for (const names of [named, [...named].reverse()]) {
    manifest.ext_files = names.map((name, i) => {
      return { criu_id: 6 + i, kind: 'render', process: 0, gpu: 0, render_state: name };
    });
    assert.deepEqual(problemsOf(bent, seen), [], names.join());
  }
});

test('a file that no manifest names has its own problem or none', () => {
  assert.deepEqual(alone('a', { size: 5 }), { name: 'a', size: 5, problems: [] });
  const damaged = alone('a', { size: 5, problem: 'cut' });
  assert.deepEqual(damaged, { name: 'a', size: 5, problems: ['cut'] });
});
