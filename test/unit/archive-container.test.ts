/** The container engine's documents: what is taken from them, and which of them are not parsed. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { containerFacts } from '../../src/archive/container.js';
import { documentText } from '../../src/archive/document.js';

const config = {
  id: 'f00d',
  name: 'trainer',
  rootfsImageName: 'localhost/worker:latest',
  runtime: 'crun',
  createdTime: '2026-11-21T11:00:00Z',
  checkpointedTime: '2026-11-21T12:00:00Z',
  other: { member: 1 },
};
const facts = {
  id: 'f00d',
  name: 'trainer',
  image: 'localhost/worker:latest',
  runtime: 'crun',
  engine: undefined,
  created: '2026-11-21T11:00:00Z',
  checkpointed: '2026-11-21T12:00:00Z',
  annotations: {},
  hostFolders: [],
};
const nothing = {
  id: undefined,
  name: undefined,
  image: undefined,
  runtime: undefined,
  engine: undefined,
  created: undefined,
  checkpointed: undefined,
  annotations: {},
  hostFolders: [],
};

test('each document tells what it has, and nothing for the other', () => {
  assert.deepEqual(containerFacts(JSON.stringify(config), undefined), facts);
  const annotations = { 'io.container.manager': 'libpod', a: 'b' };
  const spec = JSON.stringify({ annotations });
  assert.deepEqual(containerFacts(undefined, spec), { ...nothing, annotations, engine: 'Podman' });
  assert.deepEqual(containerFacts(JSON.stringify(config), spec), {
    ...facts,
    annotations,
    engine: 'Podman',
  });
});

test('documents without information are no container', () => {
  for (const text of [undefined, '', '{', '7', 'null', '"{}"']) {
    assert.equal(containerFacts(text, text), undefined, text);
  }
  assert.deepEqual(containerFacts('{}', '7'), nothing);
});

test('a member of another type is not known; the others are', () => {
  const text = JSON.stringify({ ...config, name: 7, runtime: null });
  assert.deepEqual(containerFacts(text, undefined), {
    ...facts,
    name: undefined,
    runtime: undefined,
  });
  const spec = { annotations: { a: 1 }, mounts: { type: 'bind' } };
  const expected = { ...nothing, engine: 'containerd' };
  assert.deepEqual(containerFacts(undefined, JSON.stringify(spec)), expected);
});

test('the engine is known by its annotation', () => {
  for (const [manager, engine] of [
    ['libpod', 'Podman'],
    ['cri-o', 'CRI-O'],
    ['other', 'containerd'],
    [undefined, 'containerd'],
  ]) {
    const spec = JSON.stringify({ annotations: { 'io.container.manager': manager } });
    assert.equal(containerFacts(undefined, spec)?.engine, engine);
  }
});

test("folders of the host are bind mounts that are neither the engine's nor a volume", () => {
  const bind = (source: unknown, type: unknown = 'bind') => ({ destination: '/d', type, source });
  const seen = (mounts: unknown, of: unknown = config) =>
    containerFacts(JSON.stringify(of), JSON.stringify({ mounts }))?.hostFolders;
  const host = (source: string) => ({ destination: '/d', source });
  assert.deepEqual(seen([bind('/srv/data'), bind('/models')]), [
    host('/srv/data'),
    host('/models'),
  ]);
  for (const mount of [
    bind('/srv', 'tmpfs'),
    { destination: '/d', source: '/srv' },
    bind('srv'),
    bind(7),
    { destination: '/d', type: 'bind' },
    { type: 'bind', source: '/srv' },
    bind('/run/overlay-containers/f00d/userdata/hosts'),
    bind('/var/lib/containers/storage/volumes/v/_data'),
    'nonsense',
    null,
  ]) {
    assert.deepEqual(seen([mount, bind('/srv')]), [host('/srv')], JSON.stringify(mount));
  }
  // Without an id no path is the engine's own.
  const own = '/run/undefined/f00d/hosts';
  for (const of of [7, {}]) assert.deepEqual(seen([bind(own)], of), [host(own)]);
  const inVolume = '/volumes/v/_data/sub';
  assert.deepEqual(seen([bind(inVolume), bind('/f00d')]), [host(inVolume), host('/f00d')]);
  for (const mounts of [undefined, null, {}, 'x']) assert.deepEqual(seen(mounts), []);
});

const refused = (reason: string) => ({ code: 'E_IMAGE_CORRUPT', message: `spec.dump: ${reason}` });
const textOf = (text: string) => documentText('spec.dump', Buffer.from(text));

test('a document is its text, if it is UTF-8', () => {
  assert.equal(documentText('spec.dump', undefined), undefined);
  assert.equal(textOf('{"ä":"ö"}'), '{"ä":"ö"}');
  assert.equal(textOf(''), '');
  assert.throws(() => documentText('spec.dump', Buffer.of(0x22, 0xff, 0x22)), refused('not UTF-8'));
});

test('a document has 100 levels at most, of objects and of arrays', () => {
  const levels = refused('more than 100 levels of nesting');
  for (const [open, close] of [
    ['[', ']'],
    ['{', '}'],
  ] as const) {
    const nested = (depth: number) => open.repeat(depth) + close.repeat(depth);
    assert.equal(textOf(nested(100)), nested(100));
    assert.throws(() => textOf(nested(101)), levels);
    // One behind the other is not one in the other.
    assert.equal(textOf(nested(100) + nested(100)).length, 400);
    assert.throws(() => textOf(nested(100) + nested(101)), levels);
  }
  assert.throws(() => textOf('[{'.repeat(51)), levels);
});

test('a document has 100,000 values at most', () => {
  const values = refused('more than 100000 values');
  assert.equal(textOf(','.repeat(100_000)).length, 100_000);
  assert.throws(() => textOf(','.repeat(100_001)), values);
});

test('signs in a text are no structure, up to the quote that ends it', () => {
  const signs = '['.repeat(101) + '{'.repeat(101) + ','.repeat(100_001);
  assert.equal(textOf(`"${signs}"`).length, signs.length + 2);
  assert.equal(textOf(`"\\"${signs}"`).length, signs.length + 4);
  assert.equal(textOf(`"a","\\\\","${signs}"`).length, signs.length + 11);
  const levels = refused('more than 100 levels of nesting');
  assert.throws(() => textOf(`"a"${signs}`), levels);
  assert.throws(() => textOf(`"\\\\"${signs}`), levels);
  assert.throws(() => textOf(`"a\\"b"${signs}`), levels);
  assert.throws(() => textOf(`"]]]]"${'['.repeat(101)}`), levels);
});
