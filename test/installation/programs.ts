/** What each bundled program must do on a release of Node.js. */

import assert from 'node:assert/strict';
import { execFile as execFileWithCallback, spawnSync } from 'node:child_process';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { FakeSession, sealed } from '../unit/control-session.js';
import { repository } from '../unit/paths.js';

const execFile = promisify(execFileWithCallback);

const spec = '{"linux": {"devices": [{"path":"/dev/kfd","type":"c","major":234,"minor":0}]}}';

const device = '{name: "7", containerEdits: {deviceNodes: [{path: /dev/dri/renderD199}]}}';

/** Runs the programs in `folder`, with the Node.js `node` of this major release. */
export async function checkPrograms(
  t: TestContext,
  folder: string,
  node: string,
  release: string,
): Promise<void> {
  /** With descriptor 3 as one more pipe to read. */
  const run = (root: string, program: string, args: readonly string[], input = '') => {
    const stdio = ['pipe' as const, 'pipe' as const, 'pipe' as const, 'pipe' as const];
    const words = [join(root, 'dist', program), ...args];
    return spawnSync(node, words, { input, encoding: 'utf8', stdio });
  };
  const both = (program: string, args: readonly string[], input = '') => {
    const [bundled, modules] = [folder, repository].map((root) => run(root, program, args, input));
    assert.equal(bundled?.stderr, '');
    assert.equal(bundled?.stdout, modules?.stdout);
    return bundled?.stdout ?? '';
  };
  const cli = (...args: readonly string[]) => run(folder, 'src/cli/main.js', args);

  await t.test('the hook annotates alike', () => {
    assert.match(both('hooks/precreate.js', [], spec), /io\.kfd-checkpoint\.version/);
  });
  await t.test('the command line finds its package', async () => {
    const { version } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8'));
    const { stdout, stderr } = cli('version', '--format', 'json');
    assert.equal(stderr, '');
    const answer = JSON.parse(stdout) as { readonly version: string; readonly node: string };
    assert.equal(answer.version, version);
    assert.equal(answer.node.split('.')[0], release);
  });
  await t.test('the command line finds the addon, and says so where there is none', async () => {
    const addon = join(folder, 'lib/kfd_checkpoint.node');
    const verify = () => cli('verify', join(repository, 'test/fixtures/manifest-v1')).stderr;
    await rm(addon, { force: true });
    assert.ok(verify().includes(addon), verify());
    await cp(join(repository, 'build/native/kfd_checkpoint.node'), addon);
    assert.match(verify(), /not a checkpoint/);
  });
  await t.test('the command line reads YAML, by a file that is loaded then', async () => {
    const root = join(folder, 'with-yaml');
    await mkdir(join(root, 'etc/cdi'), { recursive: true });
    await writeFile(join(root, 'etc/cdi/amd.yaml'), `kind: amd.com/gpu\ndevices:\n- ${device}\n`);
    const { stdout } = cli('check', '--root', root);
    assert.match(stdout, /^warn +cdi +amd\.com\/gpu=7 of \S+: is no GPU of this host$/m);
    assert.match(await readFile(join(folder, 'dist/src/cli/main.js'), 'utf8'), /late-main\.js/);
  });
  await t.test('the session answers its launcher', () => {
    const { output } = run(folder, 'src/session/main.js', ['neither']);
    assert.match(output[3] ?? '', /usage: main\.js dump\|restore/);
  });
  await t.test('the shim answers its script', () => {
    assert.match(run(folder, 'shim/main.js', ['id']).stdout, /the stock shim answered nothing/);
  });
  await t.test('a task of the shim answers alike', () => {
    const words = ['explain', 'dump', folder, '0', 'criu failed'];
    assert.match(both('shim/task/main.js', words), /criu failed/);
  });
  await t.test('gRPC is a program of its own, and found by the others', async () => {
    const session = await FakeSession.start(folder);
    try {
      const words = [join(folder, 'dist/src/cli/main.js'), 'sessions', '--root', folder];
      const { stdout, stderr } = await execFile(node, words);
      assert.equal(stderr, '');
      assert.match(stdout, /^4711 +checkpoint /m);
    } finally {
      await session.end(sealed);
    }
  });
}
