import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { decodeManifest, encodeManifest } from '../../src/manifest/codec.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { canonicalJson, sealOf } from '../../src/manifest/seal.js';
import { sampleManifest } from './manifest-sample.js';
import { problemsOf, sealedText } from './manifest-sealed.js';
import { fixtures } from './paths.js';

const golden = join(fixtures, 'manifest-v1/kfd-manifest.json');

test('the golden manifest of version 1 is read, and written byte for byte', async () => {
  const text = await readFile(golden, 'utf8');
  const manifest = decodeManifest(Buffer.from(text));
  assert.deepEqual(manifest, sampleManifest());
  assert.equal(encodeManifest(manifest), text);
});

test('an empty list is one line', () => {
  const text = encodeManifest({ ...sampleManifest(), ext_files: [] });
  assert.match(text, /^ {2}"ext_files": \[\],$/m);
  assert.deepEqual(decodeManifest(Buffer.from(text)).ext_files, []);
});

test('the seal is the last member and schema_version the first', () => {
  const keys = Object.keys(JSON.parse(encodeManifest(sampleManifest())) as object);
  assert.equal(keys[0], 'schema_version');
  assert.equal(keys.at(-1), 'seal');
});

test('canonical JSON ignores order and white space, and nothing else', () => {
  assert.equal(
    canonicalJson({ b: [1, { d: null, c: 'x\n' }], a: true }),
    '{"a":true,"b":[1,{"c":"x\\n","d":null}]}',
  );
  assert.equal(canonicalJson({ a: undefined, b: 1 }), '{"b":1}');
  assert.notEqual(sealOf({ a: [1, 2] }), sealOf({ a: [2, 1] }));
});

test('every truncation of the file is refused', async () => {
  const text = (await readFile(golden, 'utf8')).trimEnd();
  for (let length = 0; length < text.length; length += 37) {
    assert.throws(() => decodeManifest(Buffer.from(text.slice(0, length))), {
      code: 'E_IMAGE_CORRUPT',
    });
  }
});

test('the seal of a document that is longer than its buffer is that of the whole text', () => {
  const document = { list: Array.from({ length: 20_000 }, (_, index) => ({ index })) };
  const text = canonicalJson(document);
  assert.ok(text.length > 3 * 65_536);
  assert.equal(sealOf(document), createHash('sha256').update(text).digest('hex'));
});

test('a changed value is caught by the seal', async () => {
  const text = await readFile(golden, 'utf8');
  const changed = text.replace('"gpu_id":51966', '"gpu_id":51967');
  assert.notEqual(changed, text);
  assert.throws(() => decodeManifest(Buffer.from(changed)), { message: /the seal does not match/ });
  const { ...unsealed } = sampleManifest();
  assert.throws(() => decodeManifest(Buffer.from(JSON.stringify(unsealed))), {
    message: /the seal is missing/,
  });
});

test('a newer version is refused by name, whatever else it contains', () => {
  assert.throws(() => decodeManifest(Buffer.from('{"schema_version":2,"new":{}}')), {
    code: 'E_IMAGE_VERSION',
    message: 'kfd-manifest.json: schema version 2 is newer than 1',
  });
  // What is no version is damage.
  for (const version of [1.5, '2', 0, true]) {
    const bad = { ...sampleManifest(), schema_version: version };
    assert.match(problemsOf(bad).join(), /^schema_version: /, String(version));
  }
});

test('all problems are listed at once', () => {
  const bad = { ...sampleManifest(), extra: 1, created: 'yesterday', parent: 'p' };
  const problems = problemsOf(bad);
  for (const key of ['extra', 'created', 'parent']) {
    assert.ok(
      problems.some((problem) => problem.startsWith(`${key}:`)),
      `${key} in ${problems}`,
    );
  }
});

test('a message has the first problems, and how many more there are', () => {
  const message = (count: number) => {
    const bad = sampleManifest();
    bad.ext_files = Array.from({ length: count }, () => ({ criu_id: 5, kind: 'kfd', process: 9 }));
    // Of each file its process is not there, and of all but the first the id is used twice.
    try {
      decodeManifest(Buffer.from(sealedText(bad)));
    } catch (error) {
      return (error as Error).message;
    }
    return '';
  };
  const first = 'kfd-manifest.json: ext_files.0.process: there is no process 9';
  assert.equal(message(1), first);
  assert.ok(message(3).endsWith('ext_files.2.process: there is no process 9'), 'five are shown');
  assert.match(message(4), /^kfd-manifest\.json: (ext_files\.[^;]+; ){5}and 2 more$/);
  assert.match(message(50), /; and 94 more$/);
  assert.match(message(51), /; and at least 95 more$/);
});

test('file names cannot leave the image directory', () => {
  for (const name of [
    '../kfd-state-0.img',
    '/etc/passwd',
    'kfd-state-0.img/x',
    'kfd-state-0.img\n',
    'amdgpu-pages-0-00FF.img',
  ]) {
    const bad = sampleManifest();
    bad.files[0] = { ...bad.files[0], name } as Manifest['files'][number];
    assert.ok(
      problemsOf(bad).some((problem) => problem.startsWith('files.0.name:')),
      name,
    );
  }
});

test('sizes are bounded and whole', () => {
  for (const size of [-1, 0.5, 2 ** 53, 1e300]) {
    const bad = sampleManifest();
    bad.buffers[0] = { ...bad.buffers[0], size } as Manifest['buffers'][number];
    assert.ok(
      problemsOf(bad).some((problem) => problem.startsWith('buffers.0.size:')),
      String(size),
    );
  }
});

test('contradictions between the parts are found', () => {
  const assign =
    (...pairs: [gpu: number, minor: number][]) =>
    ({ devices }: Manifest) => {
      devices.assigned = pairs.map(([gpu, render_minor]) => ({ gpu, render_minor }));
    };
  const cases: [string, (manifest: Manifest) => void][] = [
    ['gpus.1.ordinal', (m) => Object.assign(m.gpus[1] as object, { ordinal: 0 })],
    ['processes.0.state_file', (m) => m.files.splice(0, 1)],
    ['processes.0.gpus', (m) => m.processes[0]?.gpus.push(7)],
    ['processes.0.gpus', (m) => m.processes[0]?.gpus.push(1)],
    ['buffers.1.id', (m) => Object.assign(m.buffers[1] as object, { id: 0 })],
    ['buffers.1.bo_index', (m) => Object.assign(m.buffers[1] as object, { bo_index: 3 })],
    ['buffers.1.bo_index', (m) => Object.assign(m.buffers[1] as object, { bo_index: 24 })],
    ['buffers.0.process', (m) => Object.assign(m.buffers[0] as object, { process: 3 })],
    ['buffers.0.gpu', (m) => Object.assign(m.buffers[0] as object, { gpu: 2 })],
    ['buffers.0.pages_file', (m) => Object.assign(m.buffers[0] as object, { gpu: 1 })],
    ['buffers.2.pages_file', (m) => m.files.splice(2, 1)],
    ['ext_files.1.criu_id', (m) => Object.assign(m.ext_files[1] as object, { criu_id: 5 })],
    ['ext_files.1.gpu', (m) => delete (m.ext_files[1] as { gpu?: number }).gpu],
    ['ext_files.0.process', (m) => Object.assign(m.ext_files[0] as object, { process: 1 })],
    ['devices.assigned.0.gpu', assign([2, 128])],
    ['devices.assigned.1.gpu', assign([1, 128], [1, 129])],
    ['devices.assigned.1.render_minor', assign([0, 128], [1, 128])],
    ['devices.assigned.0.render_minor', assign([0, 130])],
    ['files.3.name', (m) => m.files.push(m.files[2] as never)],
    ['files.2.name', (m) => m.buffers.splice(2, 1)],
    [
      'files.1.digest.algo',
      (m) => Object.assign(m.files[1] as object, { digest: m.files[0]?.digest }),
    ],
  ];
  for (const [path, bend] of cases) {
    const manifest = sampleManifest();
    bend(manifest);
    const problems = problemsOf(manifest);
    assert.ok(
      problems.some((problem) => problem.startsWith(`${path}:`)),
      `${path} in ${problems}`,
    );
  }
});

test('the state of a render file belongs to one render file', () => {
  const drm = { criu_id: 9, kind: 'drm', process: 0, gpu: 1, render_state: 'render-state-4.img' };
  const file = { ...sampleManifest().files[0], name: 'render-state-4.img' };
  const bent = (bend: (manifest: Manifest) => void) => {
    const manifest = sampleManifest();
    manifest.ext_files.push({ ...drm } as never);
    manifest.files.push({ ...file } as never);
    bend(manifest);
    return problemsOf(manifest);
  };
  assert.deepEqual(
    bent(() => undefined),
    [],
  );
  const last = (m: Manifest) => m.ext_files.at(-1) as { kind: string; render_state: string };
  const cases: [RegExp, (manifest: Manifest) => void][] = [
    [/^ext_files\.2\.gpu: missing/, (m) => delete (m.ext_files[2] as { gpu?: number }).gpu],
    [/^ext_files\.2\.render_state: .* is not the state/, (m) => (last(m).kind = 'kfd')],
    [/is not the state of a render file/, (m) => (last(m).render_state = 'kfd-state-0.img')],
    [/is used twice/, (m) => m.ext_files.push({ ...drm, criu_id: 10 } as never)],
    [/^ext_files\.2\.render_state: not among files/, (m) => m.files.pop()],
    [/^files\.3\.name: render-state-4\.img belongs to nothing/, (m) => m.ext_files.pop()],
  ];
  for (const [pattern, bend] of cases) {
    assert.match(bent(bend).join('\n'), new RegExp(pattern.source, 'm'));
  }
});

test('a dma-buf is that of a buffer of its process', () => {
  const bent = (file: object) => {
    const manifest = sampleManifest();
    manifest.ext_files.push({ criu_id: 9, ...file } as never);
    return problemsOf(manifest);
  };
  const [{ id, process } = { id: -1, process: -1 }] = sampleManifest().buffers;
  assert.deepEqual(bent({ kind: 'dmabuf', process, buffer: id }), []);
  assert.match(bent({ kind: 'dmabuf', process }).join(), /ext_files\.2\.buffer: for a dma-buf/);
  assert.match(bent({ kind: 'kfd', process, buffer: id }).join(), /buffer: for a dma-buf, and/);
  assert.match(bent({ kind: 'dmabuf', process, buffer: 99 }).join(), /process 0 has no buffer 99/);
});

test('hostile documents end in an error, not in a crash', () => {
  const deep = `{"schema_version":1,"x":${'['.repeat(200_000)}${']'.repeat(200_000)}}`;
  for (const text of [deep, '{"__proto__":{"schema_version":1}}', '\u0000']) {
    assert.throws(() => decodeManifest(Buffer.from(text)), { code: 'E_IMAGE_CORRUPT' });
  }
  for (const text of ['[]', 'null', '"x"', '7', 'true']) {
    const message = 'kfd-manifest.json: not a JSON object';
    assert.throws(() => decodeManifest(Buffer.from(text)), { code: 'E_IMAGE_CORRUPT', message });
  }
  for (const gpus of [null, 7, 'ab', { length: 1 }]) {
    const [problem] = problemsOf({ ...sampleManifest(), gpus });
    assert.equal(problem, 'gpus: not a list of 1 to 256 elements');
  }
  const hostile = { ...sampleManifest(), created: '\u001b[2J' };
  assert.ok(!problemsOf(hostile).join('').includes('\u001b'));
});
