/**
 * The bundled programs of an installation: they need no other file, and do what the modules do, on each release of
 * Node.js in packaging/node.list.
 */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { repository, temporaryFolder } from '../unit/paths.js';
import { nodeReleases } from './node-releases.js';
import { checkPrograms } from './programs.js';

/** Bundles the programs into `folder`. `stages`: the module of the test build, by which they can be held. */
function bundle(folder: string, ...stages: readonly string[]): void {
  const words = [join(repository, 'dist/src/bundle/main.js'), folder, ...stages];
  const { status, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' });
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' });
}

const text = (root: string, program: string) => readFile(join(root, 'dist', program), 'utf8');

async function checkLoads(folder: string): Promise<void> {
  for (const program of [
    'hooks/precreate.js',
    'shim/main.js',
    'shim/task/main.js',
    'src/session/main.js',
    'src/cli/main.js',
  ]) {
    const script = await text(folder, program);
    const loads = [...script.matchAll(/^const .* = require\('([^']+)'\);$/gm)];
    const names = loads.map(([, name]) => name ?? '').filter((name) => !name.startsWith('node:'));
    for (const name of names) assert.match(name, /^(events|fs|path|util)$/, program);
    assert.ok(loads.length > 2 && !script.includes('new Worker'), program);
    assert.ok(!script.includes("'http2'"), `${program}: gRPC is loaded on demand alone`);
  }
}

async function checkStages(folder: string, t: TestContext): Promise<void> {
  const held = await temporaryFolder(t);
  bundle(held, join(repository, 'dist/test/faults/stages/hold.js'));
  const names = /kfd-checkpoint-stages|[^#.\w]stage\('/;
  for (const program of [
    'shim/main.js',
    'shim/task/main.js',
    'src/session/main.js',
    'src/cli/main.js',
  ]) {
    assert.doesNotMatch(await text(folder, program), names, program);
    assert.match(await text(held, program), names, program);
  }
}

async function checkLicences(folder: string): Promise<void> {
  const notices = await readFile(join(folder, 'THIRD-PARTY-NOTICES'), 'utf8');
  for (const name of ['commander', 'pino', 'valibot']) {
    assert.match(notices, new RegExp(`^${name} \\d+\\.\\d+\\.\\d+, MIT$`, 'm'));
  }
  assert.match(notices, /^protobufjs \d+\.\d+\.\d+, BSD-3-Clause$/m);
  assert.match(notices, /^@grpc\/grpc-js \d+\.\d+\.\d+, Apache-2\.0$/m);
}

test('bundled programs need no other file and do what the modules do', async (t) => {
  const folder = await temporaryFolder(t);
  bundle(folder);
  await cp(join(repository, 'proto'), join(folder, 'proto'), { recursive: true });
  for (const { release, node, skip } of nodeReleases()) {
    await t.test(`on Node.js ${release}`, { skip }, (on) =>
      checkPrograms(on, folder, node, release),
    );
  }
  await t.test('no program loads what has a stand-in, or what is not of Node.js', () =>
    checkLoads(folder),
  );
  await t.test('no program can be held at a point, but one of the test build', (part) =>
    checkStages(folder, part),
  );
  await t.test('licences of the bundled packages go along', () => checkLicences(folder));
});
