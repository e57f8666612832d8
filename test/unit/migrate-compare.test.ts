import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadOf } from '../../src/cli/migrate-estimate.js';
import type { Host } from '../../src/gpu/host.js';
import { compare, type Moving } from '../../src/migrate/question/compare.js';
import { type Facts, factsOf, questionOf } from '../../src/migrate/question/documents.js';
import { factsOfHost, hostOfFacts } from '../../src/migrate/question/host-facts.js';
import { promisedBytes } from '../../src/migrate/question/room.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';

const imageId = 'ab'.repeat(32);
const moving: Moving = {
  question: { engine: 'podman', container: 'job', image: 'job:1', image_id: imageId, folders: [] },
  release: '1.0',
  tools: { criu: '4.1.1', podman: '5.4.2' },
  runtime: 'runc',
  hasCrunMasks: false,
  containerId: '0'.repeat(64),
  obstacles: [],
  manifest: sampleManifest(),
  memoryBytes: 1000,
  contentBytes: 500,
  changedBytes: 0,
  rounds: 0,
  sendsMemory: false,
  rooms: [{ destinations: [{ folder: '/var/tmp', gets: 'archive' }], freeBytes: 1500 }],
};

function facts(over: Partial<Facts> = {}, host: Host = hostWith({}, {})): Facts {
  const all: Facts = {
    release: '1.0',
    host: factsOfHost(host),
    tools: { criu: '4.1.1', podman: '5.4.2', runc: '1.1.15' },
    failures: [],
    name_taken: false,
    image_id: imageId,
    missing_folders: [],
    memory_free_bytes: 1000,
    store: { path: '/var/tmp', free_bytes: 2500, in_memory: false },
    ...over,
  };
  // As it comes over the connection.
  return factsOf(JSON.parse(JSON.stringify(all)));
}

const store = { path: '/var/tmp', free_bytes: 2500, in_memory: false };

const told = (over: Partial<Facts>, host?: Host) =>
  compare(moving, facts(over, host)).reasons.map(({ code, message }) => `${code} ${message}`);

test('a host is the same after the connection', () => {
  const host: Host = {
    ...hostWith({ free: 7, sdma: [{ pid: 5, queues: 2 }] }, {}),
    cpu: { model: 'a CPU', flags: new Set(['avx2', 'sse4_1']), xsaveBytes: 2440 },
    driver: { srcversion: 'ABC' },
    gttLimitBytes: 2 ** 34,
  };
  const [first, ...others] = host.gpus;
  assert.ok(first);
  const cards = { ...host, gpus: [{ ...first, cardDevice: { major: 226, minor: 1 } }, ...others] };
  const { gpus, gttLimitBytes } = hostOfFacts(facts({}, cards).host);
  assert.deepEqual([gpus[0]?.cardDevice, gttLimitBytes], [{ major: 226, minor: 1 }, 2 ** 34]);
  const back = hostOfFacts(facts({}, host).host);
  for (const gpu of back.gpus) assert.ok(gpu.sdmaUsers.length <= 1);
  assert.deepEqual(JSON.stringify(back), JSON.stringify(host));
  assert.deepEqual(back.cpu?.flags, host.cpu?.flags);
});

test('nothing is against an equal host with just enough room', () => {
  assert.deepEqual(told({}), []);
  const newer = { criu: '4.2', podman: '5.10.0', runc: '1.2.0' };
  assert.deepEqual(told({ tools: newer }), []);
});

test('each fact of the target can be a reason', () => {
  const cases: readonly (readonly [Partial<Facts>, string])[] = [
    [{ release: '1.1' }, 'E_IMAGE_VERSION kfd-checkpoint: 1.0 here, 1.1 there'],
    [
      { failures: [{ name: 'hook', message: 'missing', hint: 'run configure' }] },
      'E_HOST hook: missing',
    ],
    [
      { tools: { criu: '4.0', runc: '1.1' } },
      'E_HOST criu: 4.1.1 here wrote what 4.0 there may not read',
    ],
    [
      { tools: { criu: '4.1.1' } },
      'E_HOST runc: runs the container here, and is not in PATH there',
    ],
    [{ name_taken: true }, 'E_HOST container job: there is one with this name already'],
    [
      { image_id: 'cd'.repeat(32) },
      'E_IMAGE_MISSING image job:1: another one there: cdcdcdcdcdcd, here abababababab',
    ],
    [{ missing_folders: ['/srv/x'] }, 'E_HOST mount: /srv/x is not there'],
    [
      { memory_free_bytes: 999 },
      'E_HOST memory: the container uses 1000 bytes, 999 are free there',
    ],
    [
      { store: { path: '/var/tmp', free_bytes: 2499, in_memory: false } },
      'E_IO /var/tmp: up to 2500 bytes arrive there, 2499 are free',
    ],
  ];
  for (const [over, reason] of cases) assert.deepEqual(told(over), [reason]);
});

/** A target that keeps in memory what arrives. */
function kept(free: number, load: Partial<Moving> = {}) {
  const store = { path: '/run/x', free_bytes: free, in_memory: true };
  const answer = compare({ ...moving, ...load }, facts({ memory_free_bytes: free, store }));
  return [...answer.reasons, ...answer.warnings].map(({ message }) => message);
}

test('memory there has to do for what arrives and for the container', () => {
  // Twice the memory and the contents, an eighth, 64 MiB; and the container.
  const promised = 2500 + 313 + (64 << 20);
  assert.equal(promisedBytes(moving), promised);
  assert.deepEqual(kept(promised + 1000), []);
  const why = (bytes: number, free: number) =>
    `memory: up to ${bytes} bytes arrive there, the container uses 1000, ${free} are free`;
  assert.deepEqual(kept(promised + 999), [why(promised, promised + 999)]);
  const round = 3000 + 375 + (64 << 20);
  const ahead = 'memory: is not sent ahead: the kernel here does not track what has changed';
  assert.deepEqual(kept(round + 999, { rounds: 1 }), [why(round, round + 999), ahead]);
  const both = 4000 + 500 + (64 << 20);
  const sends = { rounds: 1, sendsMemory: true };
  assert.deepEqual(kept(both + 999, sends), [why(both, both + 999)]);
  assert.deepEqual(kept(both + 1000, sends), []);
  assert.deepEqual(kept(999), ['memory: the container uses 1000 bytes, 999 are free there']);
});

test('changes of a root file system need room on both hosts', () => {
  // Twice there: a copy becomes a layer.
  const load = { changedBytes: 300 };
  const promised = 2500 + 600;
  assert.equal(promisedBytes({ ...moving, ...load }), promised + 388 + (64 << 20));
  const room = { freeBytes: 1799, destinations: [{ folder: '/kept', gets: 'whole' }] } as const;
  const against = (rooms: Moving['rooms']) =>
    compare({ ...moving, ...load, rooms }, facts({ store: { ...store, free_bytes: promised } }))
      .reasons.map(({ message }) => message)
      .join();
  assert.match(
    against([room]),
    /^\/kept here: a checkpoint writes about 1800 bytes, 1799 are free$/,
  );
  assert.equal(against([{ ...room, freeBytes: 1800 }]), '');
});

/** The reasons of the engine's folder there. */
function engineReasons(over: Partial<Moving>, freeBytes: number, storeBytes = 1e9): string {
  const engine_store = { path: '/e', free_bytes: freeBytes, with_store: storeBytes < 1e9 };
  const there = facts({ engine_store, store: { ...store, free_bytes: storeBytes } });
  const { reasons } = compare({ ...moving, rooms: [], ...over }, there);
  return reasons.map(({ message }) => message.replace('restore writes about', '')).join();
}

test('the engine there needs room for memory and changes of the root file system', () => {
  const changes = { changedBytes: 300 };
  const why = (bytes: number, free: number) => `/e: a  ${bytes} bytes there, ${free} are free`;
  // The memory, the changes in its folder, and applied.
  assert.equal(engineReasons(changes, 1599), why(1600, 1599));
  assert.equal(engineReasons(changes, 1600), '');
  const ahead = { ...changes, sendsMemory: true };
  assert.equal(engineReasons(ahead, 2599), why(2600, 2599));
  // What arrives is on the same file system.
  assert.equal(engineReasons(changes, 4699, 4699), why(4700, 4699));
  assert.equal(engineReasons(changes, 4700, 4700), '');
});

const ofContainerd: Moving = {
  ...moving,
  question: { ...moving.question, engine: 'containerd', runtime: 'io.containerd.runc.kfd.v2' },
};

test('containerd there has the changes as a layer, and reads the memory elsewhere', () => {
  const load = { ...ofContainerd, rooms: [], changedBytes: 300 };
  assert.match(engineReasons(load, 599), /\/e: a {2}600 bytes there, 599 are free$/);
  assert.doesNotMatch(engineReasons(load, 600), /\/e: /);
});

test('a containerd that does not answer is told as that, and its image is not known', () => {
  const { image_id: _, ...rest } = facts({ engine_silent: 'it is not there' });
  const { reasons } = compare(ofContainerd, rest);
  // Device numbers are others there.
  const said = reasons.map(({ message }) => message).filter((one) => !/^gpu /.test(one));
  assert.deepEqual(said, ['containerd: does not answer there: it is not there']);
});

test('changes of a root file system are sent as the memory is', () => {
  assert.deepEqual(loadOf(moving), { memory: 1000, contents: 500 });
  assert.deepEqual(loadOf({ ...ofContainerd, changedBytes: 7 }), { memory: 1007, contents: 500 });
});

test('memory of an unknown size has no room in memory there, and a folder is named', () => {
  const found = kept(2 ** 40, { memoryBytes: undefined });
  assert.equal(found[0], 'memory: how much container job needs there is not known');
});

test('GPUs are compared as with an archive: model, VRAM, and SDMA queues of others', () => {
  assert.match(told({}, hostWith({ gfx_target_version: 90402 }, {})).join(), /gfx version was/);
  assert.match(told({}, hostWith({ free: 5 }, { free: 5 })).join(), /E_VRAM .* 5 are free/);
  const busy = { sdma: [{ pid: 9, queues: 1 }] };
  const { warnings, reasons } = compare(moving, facts({}, hostWith(busy, busy)));
  assert.deepEqual(reasons, []);
  assert.match(warnings[0]?.message ?? '', /pid 9 has 1 SDMA queue/);
});

test('an older podman is a warning', () => {
  const older = { criu: '4.1.1', podman: '4.9.0', runc: '1.1' };
  const { reasons, warnings } = compare(moving, facts({ tools: older }));
  assert.deepEqual(reasons, []);
  assert.match(warnings[0]?.message ?? '', /podman: 5\.4\.2 here is newer than 4\.9\.0 there/);
});

test('a crun that cannot restore what a newer one masks is a reason, where something is masked', () => {
  const said = (hasCrunMasks: boolean, crun: string) => {
    const tools = { criu: '4.1.1', podman: '5.4.2', runc: '1.1.15', crun };
    return compare({ ...moving, hasCrunMasks }, facts({ tools })).reasons;
  };
  const [reason, ...others] = said(true, '1.21');
  assert.equal(
    reason?.message,
    'crun: 1.21 there cannot restore masked folders of crun 1.24 or later',
  );
  assert.equal(reason?.hint, 'install crun 1.24 or later there');
  assert.deepEqual(others, []);
  assert.deepEqual(said(false, '1.21'), []);
  assert.deepEqual(said(true, '1.24'), []);
});

test('what is not known is a warning: memory, and changes of files', () => {
  const unknown = { memoryBytes: undefined, changedBytes: undefined };
  const { reasons, warnings } = compare({ ...moving, ...unknown }, facts());
  assert.deepEqual(reasons, []);
  assert.deepEqual(
    warnings.map(({ message }) => message),
    [
      'memory: how much container job uses is not known',
      'files: how much container job has changed of its image is not known',
    ],
  );
});

test('a checkpoint needs room here for archive and image, and for the contents', () => {
  const archive = (folder: string) => ({ folder, gets: 'archive' }) as const;
  const images = (folder: string) => ({ folder, gets: 'images' }) as const;
  const contents = (folder: string) => ({ folder, gets: 'contents' }) as const;
  const rooms = [
    { destinations: [archive('/var/tmp')], freeBytes: 999 },
    { destinations: [contents('/a'), archive('/b'), archive('/c')], freeBytes: 2499 },
    { destinations: [contents('/d'), archive('/e'), images('/f')], freeBytes: 2500 },
  ];
  const ahead = { ...moving, rooms: rooms.slice(2), rounds: 0, sendsMemory: true };
  const reasons = compare(ahead, facts()).reasons.map(({ message }) => message);
  assert.match(reasons.join('\n'), /\/f here: a checkpoint writes about 3500 bytes, 2500 are free/);
  assert.deepEqual(
    compare({ ...moving, rooms }, facts()).reasons.map(({ code, message }) => `${code} ${message}`),
    [
      'E_IO /var/tmp here: a checkpoint writes about 1000 bytes, 999 are free',
      'E_IO /a and /b and /c here: a checkpoint writes about 2500 bytes, 2499 are free',
    ],
  );
});

test('documents with other shapes are refused', () => {
  const refused = { name: 'KfdError', code: 'E_PROTOCOL' } as const;
  assert.throws(() => factsOf({}), refused);
  assert.throws(() => factsOf({ ...facts(), memory_free_bytes: -1 }), refused);
  assert.throws(() => questionOf({ ...moving.question, container: '--all' }), refused);
  assert.throws(() => questionOf({ ...moving.question, image: '-x' }), refused);
  assert.throws(() => questionOf({ ...moving.question, folders: ['relative'] }), refused);
});
