import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readContents } from '../../src/archive/contents.js';
import { verifyCheckpoint } from '../../src/archive/verify.js';
import type { NativeServices } from '../../src/cli/context.js';
import { encodeManifest } from '../../src/manifest/codec.js';
import { lineage, processName } from '../../src/os/ancestors.js';
import { type ParentIndexes, parentIndexes } from '../../src/session/contents/parent.js';
import { entriesOf, fakeVerifier, gpuCheckpoint, tarOf } from './archive-builder.js';
import { cli } from './cli-context.js';
import {
  type Contents,
  checkpoint,
  first,
  frame,
  names,
  noise,
  second,
  services,
  walk,
} from './drained-archive.js';
import { assertGolden } from './golden.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

/** Takes a checkpoint through the verb; `podman` is what happens between. */
async function withParent(
  t: TestContext,
  parent: string,
  podman: (indexes: ParentIndexes) => Promise<void>,
  over: readonly string[] = ['--export', 'new.tar'],
  bent: NativeServices = services,
) {
  const run = join(await temporaryFolder(t), 'run');
  let given: readonly string[] = [];
  const result = await cli(['checkpoint', '--parent', parent, '--run', run, 'job', ...over], {
    native: bent,
    runThrough: async (command, args) => {
      given = [command, ...args];
      const indexes = await parentIndexes(process.pid, undefined, run);
      assert.ok(indexes, 'a session finds it');
      await podman(indexes);
      return 0;
    },
  });
  if (existsSync(run)) assert.deepEqual(readdirSync(run), [], 'nothing stays behind');
  return { ...result, given };
}

/** base.tar, and delta.tar that refers to it, in one folder. */
async function pair(t: TestContext, later: Contents = second, earlier: Contents = first) {
  const folder = await temporaryFolder(t);
  const base = join(folder, 'base.tar');
  const delta = join(folder, 'delta.tar');
  await writeFile(base, await tarOf(entriesOf(await checkpoint(t, earlier))));
  const taken = await withParent(t, base, async (indexes) => {
    await writeFile(delta, await tarOf(entriesOf(await checkpoint(t, later, indexes))));
  });
  assert.equal(taken.code, 0, taken.stderr);
  assert.deepEqual(taken.given.slice(1), ['container', 'checkpoint', 'job', '--export', 'new.tar']);
  return { folder, base, delta };
}

async function assertContents(t: TestContext, path: string, contents: Contents) {
  const report = await verifyCheckpoint(path, { ...walk, verifier: services.verifier() });
  assert.deepEqual(report.problems, []);
  assert.deepEqual(
    report.files.flatMap(({ problems }) => problems),
    [],
  );
  assert.equal(report.contents.manifest?.parent, null);
  const expected = await checkpoint(t, contents);
  for (const name of names) {
    const is = execFileSync('tar', ['-xOf', path, `checkpoint/${name}`], { maxBuffer: 1 << 28 });
    assert.ok(is.equals(expected[`checkpoint/${name}`] as Buffer), name);
  }
}

test('a second checkpoint of unchanged contents writes a fiftieth at most', async (t) => {
  const { base, delta } = await pair(t, first);
  const bytes = async (path: string) => (await readContents(path, walk)).sizes.gpuPages;
  assert.ok((await bytes(delta)) * 50 <= (await bytes(base)));
});

test('an archive and its parent become one that needs none', async (t) => {
  const { folder, base, delta } = await pair(t);
  assert.ok(statSync(delta).size < statSync(base).size / 2);
  const out = join(folder, 'flat.tar');
  const args = ['flatten', '--quiet', '--format', 'json', delta, '-o', out];
  const { code, stdout, stderr } = await cli(args, { native: services });
  assert.equal(code, 0, stderr);
  assertGolden(stdout, 'cli-json/flatten.json', { FOLDER: folder });
  await assertContents(t, out, second);
  assert.deepEqual(readdirSync(folder).sort(), ['base.tar', 'delta.tar', 'flat.tar']);
});

test('a chain of three, compressed, under other names', async (t) => {
  const { folder, base, delta } = await pair(t);
  const third: Contents = [second[0], noise(4096, 9), first[2]];
  const tip = join(folder, 'tip.tar');
  const taken = await withParent(t, delta, async (indexes) => {
    await writeFile(tip, await tarOf(entriesOf(await checkpoint(t, third, indexes))));
  });
  assert.equal(taken.code, 0, taken.stderr);
  const elsewhere = await temporaryFolder(t);
  const paths = [tip, delta, base].map((path, i) => {
    const packed = join(elsewhere, `${i}.tar.zst`);
    execFileSync('zstd', ['-q', '-1', path, '-o', packed]);
    return packed;
  });
  const out = join(elsewhere, 'flat.tar.zst');
  const flatten = (...parents: string[]) =>
    cli(['flatten', paths[0] ?? '', '-o', out, ...parents.flatMap((one) => ['--parent', one])], {
      native: services,
    });
  const missing = await flatten();
  assert.equal(missing.code, 4);
  assert.match(missing.stderr, /its parent delta\.tar is not beside it/);
  const wrong = await flatten(paths[2] ?? '');
  assert.equal(wrong.code, 4);
  assert.match(wrong.stderr, /2\.tar\.zst: is not the parent/);
  const many = await flatten(paths[1] ?? '', paths[2] ?? '', paths[2] ?? '');
  assert.equal(many.code, 2);
  assert.ok(!existsSync(out));
  const { code, stderr } = await flatten(paths[1] ?? '', paths[2] ?? '');
  assert.equal(code, 0, stderr);
  execFileSync('zstd', ['-q', '-d', out, '-o', join(elsewhere, 'flat.tar')]);
  await assertContents(t, join(elsewhere, 'flat.tar'), third);
});

test('equal contents of two GPUs stay stored once, with a parent and when that is put in', async (t) => {
  const weights = noise(2 * frame, 7);
  const replica = (contents: Buffer, at: number) => contents.subarray(at * frame, (at + 1) * frame);
  const before: Contents = [weights, noise(4096, 2), replica(weights, 0)];
  const changed = Buffer.concat([replica(weights, 0), noise(frame, 8)]);
  const after: Contents = [changed, before[1], replica(changed, 1)];
  const { folder, base, delta } = await pair(t, after, before);
  const verified = await cli(['verify', '--quiet', delta], { native: services });
  assert.equal(verified.code, 0, verified.stdout);
  assert.match(verified.stdout, /amdgpu-pages-0-0001\.img +\S+ \S+ +1 +0 +1 +ok/);
  const further = join(folder, 'further.tar');
  // Of what is in the parent one file has its own, the other that of the first.
  const taken = await withParent(t, base, async (indexes) => {
    await writeFile(further, await tarOf(entriesOf(await checkpoint(t, before, indexes))));
  });
  assert.equal(taken.code, 0, taken.stderr);
  for (const [path, contents] of [
    [delta, after],
    [further, before],
  ] as const) {
    const out = join(folder, 'flat.tar');
    const { code, stderr } = await cli(['flatten', '--quiet', path, '-o', out], {
      native: services,
    });
    assert.equal(code, 0, stderr);
    await assertContents(t, out, contents);
    assert.ok((await readContents(out, walk)).sizes.gpuPages < 2 * frame + 100_000);
    await rm(out);
  }
});

test('what is in a parent is shown, and a restore without it is refused by name', async (t) => {
  const { delta } = await pair(t);
  const root = await bentHost(t, 'two-gpus', {});
  const restored = await cli(['restore', '--root', root, delta], { native: services });
  assert.equal(restored.code, 4);
  assert.match(restored.stderr, /contents that had not changed are in base\.tar/);
  assert.match(restored.stderr, /--parent PARENT/);
  const checked = await cli(['check', '--root', root, delta], { native: services });
  assert.match(checked.stdout, /E_IMAGE_MISSING.*base\.tar/);
  const shown = await cli(['inspect', '--format', 'tree', delta], { native: services });
  assert.match(shown.stdout, /Parent: base\.tar/);
  const json = await cli(['inspect', '--format', 'json', delta], { native: services });
  assert.equal(JSON.parse(json.stdout).parent.archive, 'base.tar');
  const verified = await cli(['verify', '--quiet', delta], { native: services });
  assert.equal(verified.code, 0);
  assert.match(verified.stdout, /amdgpu-pages-0-0001\.img +\S+ \S+ +1 +1 +0 +ok/);
});

test('restore puts the parent in, and podman gets a whole archive', async (t) => {
  const { folder, base, delta } = await pair(t);
  const root = await bentHost(t, 'two-gpus', {});
  const copy = join(folder, 'given.tar');
  const { code, stderr } = await cli(
    ['restore', '--quiet', '--root', root, '--parent', base, delta, '--name', 'two'],
    {
      native: services,
      runThrough: async (_, args, descriptor) => {
        assert.deepEqual(args.slice(-2), ['--name', 'two']);
        await writeFile(copy, readFileSync(`/proc/self/fd/${descriptor}`));
        return 0;
      },
    },
  );
  assert.equal(code, 0, stderr);
  await assertContents(t, copy, second);
  assert.deepEqual(readdirSync(folder).sort(), ['base.tar', 'delta.tar', 'given.tar']);
});

test('a parent that is damaged or has nothing is refused before podman is asked', async (t) => {
  const { base } = await pair(t);
  const never = () => assert.fail('podman was asked');
  const damaged = join(dirname(base), 'damaged.tar');
  const bytes = await readFile(base);
  const at = bytes.indexOf(first[2].subarray(1000, 1100));
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  await writeFile(damaged, bytes);
  const refused = await withParent(t, damaged, never);
  assert.equal(refused.code, 5);
  assert.match(refused.stderr, /amdgpu-pages-0-0001\.img: .*frame 0/);
  assert.equal((await withParent(t, join(dirname(base), 'none.tar'), never)).code, 4);
  const { 'checkpoint/inventory.img': image = '', 'config.dump': config = '' } =
    gpuCheckpoint().files;
  const plain = join(dirname(base), 'plain.tar');
  await writeFile(
    plain,
    await tarOf(entriesOf({ 'checkpoint/inventory.img': image, 'config.dump': config })),
  );
  const nothing = await withParent(t, plain, never);
  assert.match(nothing.stderr, /has no GPU contents/);
  const silent = join(dirname(base), 'silent.tar');
  const { files, manifest } = gpuCheckpoint();
  const old = { ...files, 'checkpoint/kfd-manifest.json': encodeManifest(manifest) };
  await writeFile(silent, await tarOf(entriesOf(old)));
  const verifier = () => ({
    ...fakeVerifier,
    pagesCheck: () => {
      const check = fakeVerifier.pagesCheck(fakeVerifier.siblingCheck());
      return { ...check, finish: () => ({ ...check.finish(), digests: false }) };
    },
  });
  const without = await withParent(t, silent, never, ['-e', 'x'], { ...services, verifier });
  assert.equal(without.code, 1);
  assert.match(without.stderr, /amdgpu-pages-0-0000\.img has no digests/);
  const inPlace = await withParent(t, base, never, ['--keep']);
  assert.equal(inPlace.code, 2);
  assert.match(inPlace.stderr, /--export/);
});

test('a parent is recorded by a name that can be looked for, and what killed commands left goes', async (t) => {
  const folder = await temporaryFolder(t);
  const run = join(folder, 'run');
  const living = join(run, `parent-${processName(process.ppid)}`);
  const stale = [`parent-${process.ppid}-1`, 'parent-999999999-5'].map((name) => join(run, name));
  const other = join(run, String(process.pid));
  for (const one of [living, other, ...stale]) await mkdir(one, { recursive: true });
  const args = ['checkpoint', '--run', run, '--parent'];
  const bad = await cli([...args, join(folder, 'a\nb'), 'job', '-e', 'x'], { native: services });
  assert.equal(bad.code, 2);
  assert.match(bad.stderr, /cannot be recorded/);
  const none = await cli([...args, join(folder, 'none.tar'), 'job', '-e', 'x'], {
    native: services,
  });
  assert.equal(none.code, 4);
  assert.deepEqual(readdirSync(run).sort(), [
    String(process.pid),
    `parent-${processName(process.ppid)}`,
  ]);
});

test('a session takes the parent of its own command alone', async (t) => {
  const run = await temporaryFolder(t);
  assert.equal(await parentIndexes(process.pid, undefined, run), undefined);
  // As a command that was killed would have left it: the pid is an ancestor's, the start is not.
  const stale = join(run, `parent-${process.ppid}-1`);
  await mkdir(stale);
  await writeFile(join(stale, 'parent.json'), '{"archive":"a.tar","files":[]}');
  assert.equal(await parentIndexes(process.pid, undefined, run), undefined);
  const own = join(run, `parent-${processName(process.ppid)}`);
  await mkdir(own);
  await writeFile(join(own, 'parent.json'), `{"archive":"a.tar","files":["${names[0]}"]}`);
  const found = await parentIndexes(process.pid, undefined, run);
  assert.equal(found?.archive, 'a.tar');
  assert.deepEqual(found.optionFor(names[0]), { parent: join(own, names[0]) });
  assert.deepEqual(found.optionFor(names[1]), {});
  const asked = join(run, 'parent-77-1');
  await mkdir(asked);
  await writeFile(join(asked, 'parent.json'), '{"archive":"b.tar","files":[]}');
  const ofOther = await parentIndexes(process.pid, '77-1', run);
  assert.equal(ofOther?.archive, 'b.tar', 'of the command that has asked for contents');
  await writeFile(join(own, 'parent.json'), '{"archive":"..","files":[]}');
  await assert.rejects(parentIndexes(process.pid, undefined, run), /what the parent has/);
  assert.deepEqual(lineage(process.pid).slice(0, 2), [
    processName(process.pid),
    processName(process.ppid),
  ]);
});
