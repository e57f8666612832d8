/** The JSON of each verb, whole, as programs read it: test/fixtures/cli-json. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { json } from '../../src/cli/format.js';
import type { Report } from '../../src/selftest/report.js';
import { deferred } from '../../src/session/deferred.js';
import { version } from '../../src/version.js';
import { ableHost, installedHost, programs } from './able-host.js';
import { archive, gpuCheckpoint } from './archive-builder.js';
import { cli, errorIn, fakeRun } from './cli-context.js';
import { FakeSession, fakeSession, running, sealed } from './control-session.js';
import { assertGolden } from './golden.js';
import { fixtures, repository, temporaryFolder } from './paths.js';
import { sample } from './restorable.js';
import { bentHost } from './sysfs-tree.js';

/** A host on which /dev/kfd has another number than in the sample. */
const moved = { 'sys/class/kfd/kfd/dev': '511:0\n' };

function assertDocument(text: string, name: string, changing: Readonly<Record<string, string>>) {
  assert.equal((JSON.parse(text) as { schema_version: unknown }).schema_version, 1, name);
  assertGolden(text, `cli-json/${name}.json`, changing);
}

/** A watch that has begun: it has printed its first line. */
async function watchOf(root: string) {
  const lines: string[] = [];
  const begun = deferred();
  const out = (line: string) => {
    lines.push(line);
    begun.resolve();
  };
  const ended = cli(['watch', '--root', root, '--format', 'json'], { out });
  await Promise.race([begun.promise, ended]);
  return { lines, ended };
}

test('version', async () => {
  const { code, stdout } = await cli(['version', '--format', 'json']);
  assert.equal(code, 0);
  assertDocument(stdout, 'version', { VERSION: version, NODE: process.versions.node });
});

test('configure: what was done, and what a dry run would do', async (t) => {
  const root = await installedHost(t);
  const configure = (...more: string[]) =>
    cli(['configure', '--format', 'json', '--root', root, ...more]);
  const written = await configure();
  assert.deepEqual([written.code, written.stderr], [0, '']);
  assertDocument(written.stdout, 'configure', {});
  const dry = await configure('--undo', '--dry-run');
  const report = JSON.parse(dry.stdout) as { changes: { path: string; diff: string }[] };
  assert.match(report.changes[0]?.diff ?? '', /^-libdir \/var\/lib\/kfd-checkpoint\/criu$/m);
  assert.equal((await configure()).stdout.match(/"action": "unchanged"/g)?.length, 5);
});

test('configure: an error comes after what was done before it', async (t) => {
  const root = await installedHost(t);
  const signal = AbortSignal.abort();
  const args = ['configure', '--format', 'json', '--root', root];
  const { code, stdout, stderr } = await cli(args, { signal });
  assert.equal(code, 1);
  const { complete, changes } = JSON.parse(stdout) as Record<string, unknown>;
  assert.deepEqual({ complete, changes }, { complete: false, changes: [] });
  assertDocument(stderr, 'error-configure', {});
});

test('configure containerd: notes are in the document', async (t) => {
  const root = await installedHost(t);
  const run = fakeRun({ 'containerd --version': 'containerd v2.1.9 1234\n' });
  const args = ['configure', 'containerd', '--format', 'json', '--root', root];
  const { code, stdout, stderr } = await cli(args, { run });
  assert.deepEqual([code, stderr], [0, '']);
  assertDocument(stdout, 'configure-containerd', {});
});

test('configure --refresh: the document is of every engine, so it names none', async (t) => {
  const root = await ableHost(t);
  const { code, stdout, stderr } = await cli([
    'configure',
    '--refresh',
    '--format',
    'json',
    '--root',
    root,
  ]);
  assert.deepEqual([code, stderr], [0, '']);
  assertDocument(stdout, 'configure-refresh', {});
});

test('selftest: the report', async (t) => {
  const host = await ableHost(t);
  const args = ['selftest', '--format', 'json', '--size', '1', '--stages', 'host', '--root', host];
  const { code, stdout } = await cli(args, { run: fakeRun(programs) });
  assert.equal(code, 0);
  const report = JSON.parse(stdout) as Report;
  const steady = {
    ...report,
    date: 'DATE',
    us: 1,
    host: { ...report.host, machine: 'MACHINE', cpus: 1, memory_bytes: 1 },
    stages: report.stages.map((stage) => ({ ...stage, us: 1 })),
  };
  const changing = { ROOT: host, NODE: process.versions.node, VERSION: version };
  assertDocument(json(steady), 'selftest', changing);
});

test('check: a host, and an archive', async (t) => {
  const host = await ableHost(t);
  const args = ['check', '--format', 'json', '--root'];
  const able = await cli([...args, host], { run: fakeRun(programs) });
  assertDocument(able.stdout, 'check', { ROOT: host, NODE: process.versions.node });
  const path = await archive(t, sample());
  const { stdout } = await cli([...args, await bentHost(t, 'two-gpus', moved), path]);
  assertDocument(stdout, 'check-archive', { FOLDER: dirname(path) });
});

test('inspect and verify', async (t) => {
  const path = await archive(t, gpuCheckpoint().files);
  for (const verb of ['inspect', 'verify']) {
    const { code, stdout, stderr } = await cli([verb, path, '--format', 'json']);
    assert.equal(code, 0, stderr);
    assertDocument(stdout, verb, { FOLDER: dirname(path) });
  }
});

test('sessions, cancel, and each line of watch', async (t) => {
  const { root, session } = await fakeSession(t);
  const json = (...words: string[]) => cli([...words, '--root', root, '--format', 'json']);
  assertDocument((await json('sessions')).stdout, 'sessions', {});
  const { lines, ended } = await watchOf(root);
  assertDocument((await json('cancel', '4711', '--reason', 'down')).stdout, 'cancel', {});
  await session.end(sealed);
  assert.equal((await ended).code, 0);
  assertDocument(lines.at(-1) ?? '', 'watch', {});
  for (const line of lines) assert.equal(JSON.parse(line).schema_version, 1);
});

test('restore: what changed, and what podman printed', async (t) => {
  const path = await archive(t, sample());
  const root = await bentHost(t, 'two-gpus', moved);
  const args = ['restore', '--quiet', '--format', 'json', '--root', root, path, '--keep'];
  const { code, stdout, stderr } = await cli(args, {
    runThrough: async (_command, _args, _descriptor, _signal, printed) => {
      printed?.('f00d');
      printed?.('feed\n');
      return 0;
    },
  });
  assert.equal(code, 0, stderr);
  assertDocument(stdout, 'restore', { FOLDER: dirname(path) });
});

test('checkpoint: the parent, and what podman printed', async (t) => {
  const path = await archive(t, gpuCheckpoint().files);
  const run = join(await temporaryFolder(t), 'run');
  const args = ['checkpoint', '--quiet', '--format=json', '--run', run, '--parent', path, 'job'];
  const { code, stdout, stderr } = await cli([...args, '--export', 'new.tar'], {
    runThrough: async (_command, _args, _descriptor, _signal, printed) => {
      printed?.('job\n');
      return 0;
    },
  });
  assert.equal(code, 0, stderr);
  assertDocument(stdout, 'checkpoint', { FOLDER: dirname(path) });
});

test('the documents in docs/json.md have the members that are printed', async () => {
  const page = readFileSync(join(repository, 'docs/json.md'), 'utf8');
  const [, table = ''] = page.split('| document | members |\n');
  const rows = (table.split('\n\n')[0] ?? '').matchAll(/^\| `([\w-]+)` \| (.*) \|$/gm);
  const names = (text: string) => [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name);
  const shown = [...rows].filter(([, , members = '']) => members.includes('`'));
  assert.ok(shown.length > 9);
  for (const [, name = '', members = ''] of shown) {
    const golden = readFileSync(join(fixtures, `cli-json/${name}.json`), 'utf8');
    const { schema_version: _, ...document } = JSON.parse(golden) as Record<string, unknown>;
    const documented = names(members.split(':')[0] ?? '');
    assert.deepEqual(documented, Object.keys(document), name);
  }
});

test('errors: of a verb, of podman, of a session, of the command line', async (t) => {
  const folder = await temporaryFolder(t);
  const missing = await cli(['inspect', join(folder, 'none.tar'), '--format', 'json']);
  assert.deepEqual([missing.code, missing.stdout], [4, '']);
  assertDocument(missing.stderr, 'error', { FOLDER: folder });

  const path = await archive(t, sample());
  const root = await bentHost(t, 'two-gpus', {});
  const args = ['restore', '--format', 'json', '--root', root, path];
  const podman = await cli(args, { runThrough: async () => 125 });
  assert.deepEqual([podman.code, podman.stdout], [125, '']);
  assertDocument(podman.stderr, 'error-podman', {});

  const session = await FakeSession.start(folder, running);
  const { ended } = await watchOf(folder);
  await session.end({ outcome: 'failed', success: false, code: 'E_TIMEOUT', message: 'late' });
  const { code, stderr } = await ended;
  assert.equal(code, 6);
  assertDocument(stderr, 'error-session', {});
});

test('an error is JSON also when the command line cannot be parsed', async () => {
  for (const args of [
    ['frobnicate', '--format', 'json'],
    ['inspect', '--format=json'],
    ['check', '--format', 'table', '--format', 'json', '--nope'],
  ]) {
    const { code, stdout, stderr } = await cli(args);
    assert.deepEqual([code, stdout], [2, ''], args.join(' '));
    const error = errorIn(stderr);
    assert.equal(error.code, 'E_USAGE');
    assert.match(error.hint, /\S/);
    assert.equal(stderr.trimEnd().split('\n').length, 1);
  }
  for (const args of [['inspect', '--format', 'table'], ['inspect', '--format'], ['inspect']]) {
    assert.match((await cli(args)).stderr, /^Error: /, args.join(' '));
  }
});

test('an interrupted watch is told to programs only', async (t) => {
  const { root } = await fakeSession(t);
  const over = { signal: AbortSignal.abort() };
  const { code, stderr } = await cli(['watch', '--root', root, '--format', 'json'], over);
  assert.equal(code, 1);
  assert.equal(errorIn(stderr).code, 'E_CANCELLED');
});
