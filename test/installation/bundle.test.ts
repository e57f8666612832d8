import assert from 'node:assert/strict';
import { execFile as execFileWithCallback, spawnSync } from 'node:child_process';
import { cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { FakeSession, sealed } from '../unit/control-session.js';
import { repository, temporaryFolder } from '../unit/paths.js';

const execFile = promisify(execFileWithCallback);

const spec = '{"linux": {"devices": [{"path":"/dev/kfd","type":"c","major":234,"minor":0}]}}';

/** Runs a program with descriptor 3 as one more pipe to read. */
function node(program: string, args: readonly string[], input = '') {
  const stdio = ['pipe' as const, 'pipe' as const, 'pipe' as const, 'pipe' as const];
  return spawnSync(process.execPath, [program, ...args], { input, encoding: 'utf8', stdio });
}

test('bundled programs need no other file and do what the modules do', async (t) => {
  const folder = await temporaryFolder(t);
  const bundler = node(join(repository, 'dist/src/bundle/main.js'), [folder]);
  assert.equal(bundler.stderr, '');
  assert.equal(bundler.status, 0);
  await t.test('the hook annotates alike', () => {
    const [bundled, modules] = [folder, repository].map((prefix) =>
      node(join(prefix, 'dist/hooks/precreate.js'), [], spec),
    );
    assert.equal(bundled?.stderr, '');
    assert.match(bundled?.stdout ?? '', /io\.kfd-checkpoint\.version/);
    assert.equal(bundled?.stdout, modules?.stdout);
  });
  await t.test('the command line finds its package', async () => {
    const { version } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8'));
    const { stdout, stderr } = node(join(folder, 'dist/src/cli/main.js'), ['version']);
    assert.equal(stderr, '');
    assert.ok(stdout.includes(version), stdout);
  });
  await t.test('the command line finds the addon, and says so where there is none', async () => {
    const addon = join(folder, 'lib/kfd_checkpoint.node');
    const image = join(repository, 'test/fixtures/manifest-v1');
    const verify = () => node(join(folder, 'dist/src/cli/main.js'), ['verify', image]);
    assert.ok(verify().stderr.includes(addon), verify().stderr);
    await cp(join(repository, 'build/native/kfd_checkpoint.node'), addon);
    assert.match(verify().stderr, /not a checkpoint/);
  });
  await t.test('the session answers its launcher', () => {
    const { output } = node(join(folder, 'dist/src/session/main.js'), ['neither']);
    assert.match(output[3] ?? '', /usage: main\.js dump\|restore/);
  });
  await t.test('the shim answers its script', () => {
    const { stdout } = node(join(folder, 'dist/shim/main.js'), ['id']);
    assert.match(stdout, /the stock shim answered nothing/);
  });
  await t.test('no program loads what has a stand-in, or what is not of Node.js', async () => {
    for (const program of [
      'hooks/precreate.js',
      'shim/main.js',
      'shim/task/main.js',
      'src/session/main.js',
      'src/cli/main.js',
    ]) {
      const text = await readFile(join(folder, 'dist', program), 'utf8');
      const loads = [...text.matchAll(/^const .* = require\('([^']+)'\);$/gm)];
      const names = loads.map(([, name]) => name ?? '').filter((name) => !name.startsWith('node:'));
      for (const name of names) assert.match(name, /^(events|fs|path|util)$/, program);
      assert.ok(loads.length > 2 && !text.includes('new Worker'), program);
      assert.ok(!text.includes("'http2'"), `${program}: gRPC is loaded on demand alone`);
    }
  });
  await t.test('no program can be held at a point, but one of the test build', async () => {
    const held = join(folder, 'held');
    const stages = join(repository, 'dist/test/faults/stages/hold.js');
    assert.equal(node(join(repository, 'dist/src/bundle/main.js'), [held, stages]).stderr, '');
    const text = async (root: string, program: string) =>
      readFile(join(root, 'dist', program), 'utf8');
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
  });
  await t.test('gRPC is a program of its own, and found by the others', async () => {
    await cp(join(repository, 'proto'), join(folder, 'proto'), { recursive: true });
    const session = await FakeSession.start(folder);
    try {
      const words = [join(folder, 'dist/src/cli/main.js'), 'sessions', '--root', folder];
      const { stdout, stderr } = await execFile(process.execPath, words);
      assert.equal(stderr, '');
      assert.match(stdout, /^4711 +checkpoint /m);
    } finally {
      await session.end(sealed);
    }
  });
  await t.test('licences of the bundled packages go along', async () => {
    const text = await readFile(join(folder, 'THIRD-PARTY-NOTICES'), 'utf8');
    for (const name of ['commander', 'pino', 'valibot']) {
      assert.match(text, new RegExp(`^${name} \\d+\\.\\d+\\.\\d+, MIT$`, 'm'));
    }
    assert.match(text, /^protobufjs \d+\.\d+\.\d+, BSD-3-Clause$/m);
    assert.match(text, /^@grpc\/grpc-js \d+\.\d+\.\d+, Apache-2\.0$/m);
  });
});
