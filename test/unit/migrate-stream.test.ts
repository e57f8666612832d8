/** GPU contents that leave while the checkpoint is made. They come before the archive, and stay here until the end. */

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
} from 'node:fs';
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { keepContentsIndexes } from '../../src/archive/contents-indexes.js';
import { placesBelow } from '../../src/migrate/places.js';
import { native } from '../../src/native.js';
import { ParentIndexes } from '../../src/session/contents/parent.js';
import { entriesOf, tarOf, unpackTo } from './archive-builder.js';
import { errorIn } from './cli-context.js';
import { checkpoint, detach, first, frame, names, second, services } from './drained-archive.js';
import { containerId } from './migrate-hosts.js';
import { type Hosts, hold, migrate, type Place, stateOf, twoHosts } from './migrate-two-places.js';
import { temporaryFolder } from './paths.js';
import { sample } from './restorable.js';

/** What a round sends ahead: the contents before the last ones. */
async function roundAhead(t: TestContext, podman: string): Promise<ParentIndexes> {
  await mkdir(join(podman, 'round'));
  await detach(await checkpoint(t, first), join(podman, 'round'));
  const indexes = await temporaryFolder(t);
  const { verifier } = services;
  await keepContentsIndexes(join(podman, 'round'), {
    verifier: verifier(),
    zstdDecoder: services.zstdDecoder,
    keepIndexes: indexes,
  });
  return new ParentIndexes(indexes, 'before.0', names);
}

/** Hosts whose container has GPU contents: its session sends them, and its archive lacks them. */
async function hostsWithContents(t: TestContext, { ahead = false } = {}): Promise<Hosts> {
  const hosts = await twoHosts(t);
  const { podman } = hosts.source;
  const fifo = join(await temporaryFolder(t), 'fifo');
  execFileSync('mkfifo', [fifo]);
  const cat = spawn('cat', [fifo]);
  // cat may come later than the sender, which needs a reader.
  const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
  t.after(() => closeSync(reader));
  const read = buffer(cat.stdout);
  const stream = new (native().ContentsSender)(fifo);
  const drained = await checkpoint(
    t,
    second,
    ahead ? await roundAhead(t, podman) : undefined,
    stream,
  );
  await stream.finish();
  await writeFile(join(podman, 'stream'), await read);
  await mkdir(join(podman, 'pages'));
  const files = await detach({ ...sample(), ...drained }, join(podman, 'pages'));
  await writeFile(join(podman, 'archive.tar'), await tarOf(entriesOf(files)));
  const bundle = join(podman, containerId, 'userdata');
  await rm(bundle, { recursive: true });
  await unpackTo(bundle, files);
  return hosts;
}

const kept = ({ root }: Place) => {
  const folder = join(root, 'var/lib/kfd-checkpoint/kept');
  return existsSync(folder) ? readdirSync(folder) : [];
};

const logOf = ({ podman }: Place) => {
  const file = join(podman, 'log');
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
};

test('they go beside the archive, and the source keeps them until it is over', async (t) => {
  const hosts = await hostsWithContents(t);
  const restore = await hold(hosts.target, 'hold-restore');
  const moving = migrate(t, hosts);
  await restore.reached();
  const [id = ''] = kept(hosts.source);
  const own = join(hosts.source.root, 'var/lib/kfd-checkpoint/kept', id, 'contents');
  const there = join(placesBelow(hosts.target.root).memory(id), 'contents');
  for (const name of names)
    assert.deepEqual(readFileSync(join(there, name)), readFileSync(join(own, name)));
  assert.match(logOf(hosts.source), stops);
  await restore.release();
  const { status, stdout, stderr } = await moving.ended;
  assert.equal(status, 0, stderr);
  const { bytes } = JSON.parse(stdout) as { bytes: number };
  assert.ok(bytes > 3 * frame, `${bytes}`);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['none', 'running']);
  assert.deepEqual([kept(hosts.source), existsSync(there)], [[], false]);
});

test('what the target cannot restore comes back here with what was kept', async (t) => {
  const hosts = await hostsWithContents(t);
  await writeFile(join(hosts.target.podman, 'fail-restore'), '');
  const { status, stderr } = await migrate(t, hosts).ended;
  assert.equal(status, 1, stderr);
  assert.match(errorIn(stderr).message, /^job: did not move, and runs here: host-b: restore: /);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['running', 'none']);
  assert.deepEqual(kept(hosts.source), []);
});

test('what was sent ahead while it ran is not sent again, and both hosts use it', async (t) => {
  const hosts = await hostsWithContents(t, { ahead: true });
  const restore = await hold(hosts.target, 'hold-restore');
  const moving = migrate(t, hosts);
  await restore.reached();
  const [id = ''] = kept(hosts.source);
  const there = placesBelow(hosts.target.root).memory(id);
  const size = (...path: string[]) => statSync(join(there, ...path)).size;
  assert.ok(size('before.0', names[0]) > 2 * frame);
  assert.ok(size('contents', names[0]) < 1.5 * frame, 'half of it has not changed');
  assert.match(logOf(hosts.source), /checkpoint --leave-running \w+\n(.*\n)*.*--export/);
  await restore.release();
  const { status, stderr } = await moving.ended;
  assert.equal(status, 0, stderr);
  assert.match(stderr, /^job: round 1 of 1 is there$/m);
  const failing = await hostsWithContents(t, { ahead: true });
  await writeFile(join(failing.target.podman, 'fail-restore'), '');
  const back = await migrate(t, failing).ended;
  assert.equal(back.status, 1, back.stderr);
  assert.equal(stateOf(failing.source), 'running');
});

test('memory is sent ahead after the last round, and the target restores with it', async (t) => {
  const hosts = await hostsWithContents(t);
  const previous = join(hosts.source.podman, containerId, 'userdata/pre-checkpoint');
  const restore = await hold(hosts.target, 'hold-restore');
  const moving = migrate(t, hosts);
  await restore.reached();
  const [id = ''] = kept(hosts.source);
  const there = join(placesBelow(hosts.target.root).memory(id), 'pre-checkpoint.tar');
  assert.equal(readFileSync(there, 'utf8'), 'memory as it was\n');
  assert.ok(existsSync(previous));
  const only = '--ignore-rootfs --ignore-volumes --compress none --export';
  const order = `--leave-running[^]*--pre-checkpoint ${only}[^]*--with-previous --compress none`;
  assert.match(logOf(hosts.source), new RegExp(order));
  assert.ok(logOf(hosts.target).includes(`.tar --import-previous ${there}\n`), logOf(hosts.target));
  await writeFile(join(hosts.target.podman, 'fail-restore'), '');
  await restore.release();
  const { status, stderr } = await moving.ended;
  assert.equal(status, 1, stderr);
  assert.equal(stateOf(hosts.source), 'running');
  assert.equal(existsSync(previous), false, 'the folder of the pre-checkpoint goes');
});

test('where podman makes no pre-checkpoint, all memory comes with the checkpoint', async (t) => {
  const hosts = await hostsWithContents(t);
  await writeFile(join(hosts.source.podman, 'fail-memory'), '');
  const { status, stderr } = await migrate(t, hosts).ended;
  assert.equal(status, 0, stderr);
  const said = /^job: its memory is not sent ahead: .*--pre-checkpoint: cannot track memory$/m;
  assert.match(stderr, said);
  assert.doesNotMatch(logOf(hosts.source), /--with-previous/);
  assert.doesNotMatch(logOf(hosts.target), /--import-previous/);
});

test('without rounds nothing is sent ahead', async (t) => {
  const hosts = await hostsWithContents(t);
  const { status, stderr } = await migrate(t, hosts, '--precopy', '0').ended;
  assert.equal(status, 0, stderr);
  assert.doesNotMatch(logOf(hosts.source), /--leave-running|--pre-checkpoint/);
});

/** The call of podman after which the container stands still: neither a round nor a pre-checkpoint. */
const stops = /checkpoint (--with-previous )?--compress/;

test('nothing stops before the target waits for them', async (t) => {
  const hosts = await hostsWithContents(t);
  const connection = await hold(hosts.target, 'hold-stream');
  const moving = migrate(t, hosts);
  await connection.reached();
  assert.match(logOf(hosts.source), /--pre-checkpoint/);
  assert.doesNotMatch(logOf(hosts.source), stops);
  await writeFile(join(hosts.target.podman, 'no-network'), '');
  await connection.release();
  const { status, stderr } = await moving.ended;
  assert.equal(status, 3, stderr);
  assert.match(errorIn(stderr).message, /^job: did not move, and runs here: ssh host-b: no conn/);
  assert.doesNotMatch(logOf(hosts.source), stops);
  assert.deepEqual([stateOf(hosts.source), kept(hosts.source)], ['running', []]);
});

test('where the target cannot keep them, its reason is told', async (t) => {
  const hosts = await hostsWithContents(t);
  const held = await hold(hosts.source, 'hold-checkpoint');
  const moving = migrate(t, hosts);
  await held.reached();
  const [id = ''] = kept(hosts.source);
  const contents = join(placesBelow(hosts.target.root).memory(id), 'contents');
  await mkdir(join(contents, names[1]));
  await chmod(contents, 0o700);
  await held.release();
  const { status, stderr } = await moving.ended;
  assert.equal(status, 1, stderr);
  assert.match(
    errorIn(stderr).message,
    /runs here: host-b: .*amdgpu-pages-0-0001\.img: File exists/,
  );
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['running', 'none']);
});
