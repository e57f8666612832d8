/** libexec/node: which Node.js runs the programs of an installation. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { repository, temporaryFolder } from './paths.js';

interface Installation {
  /** Folder of the installation. */
  readonly prefix: string;
  /** All that PATH names. */
  readonly bin: string;
}

/** An installation whose command line prints its arguments, and a PATH without Node.js. */
async function installation(t: TestContext): Promise<Installation> {
  const folder = await temporaryFolder(t);
  const [prefix, bin] = [join(folder, 'with a space'), join(folder, 'bin')];
  await cp(join(repository, 'libexec'), join(prefix, 'libexec'), { recursive: true });
  await mkdir(join(prefix, 'dist/src/cli'), { recursive: true });
  await writeFile(
    join(prefix, 'dist/src/cli/main.js'),
    'console.log(JSON.stringify(process.argv.slice(2)));',
  );
  await mkdir(bin);
  await symlink('/usr/bin/readlink', join(bin, 'readlink'));
  return { prefix, bin };
}

/** Puts a Node.js into PATH that calls itself `version`. */
async function inPath({ bin }: Installation, version: string): Promise<void> {
  const disguise = join(bin, 'disguise.cjs');
  const versions = `{ ...process.versions, node: '${version}' }`;
  await writeFile(disguise, `Object.defineProperty(process, 'versions', { value: ${versions} });`);
  const text = `#!/bin/sh\nexec '${process.execPath}' --require '${disguise}' "$@"\n`;
  await writeFile(join(bin, 'node'), text, { mode: 0o755 });
}

function run(program: string, args: readonly string[], { prefix, bin }: Installation) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: prefix,
    env: { PATH: bin },
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

const args = ['inspect', 'a b', "'", ''];
const printed = { status: 0, stdout: `${JSON.stringify(args)}\n`, stderr: '' };

test('the command line runs on the Node.js in PATH, also by a link', async (t) => {
  const one = await installation(t);
  await inPath(one, '20.0.0');
  const program = join(one.prefix, 'libexec/kfd-checkpoint');
  assert.deepEqual(run(program, args, one), printed);
  const link = join(one.bin, 'kfd-checkpoint');
  await symlink(program, link);
  assert.deepEqual(run(link, args, one), printed);
  await rm(join(one.bin, 'disguise.cjs'));
  assert.equal(run(link, args, one).status, 1); // it is this Node.js that ran
});

test('it runs by a path from the working folder', async (t) => {
  const one = await installation(t);
  await inPath(one, '20.0.0');
  for (const program of ['libexec/kfd-checkpoint', './libexec/kfd-checkpoint']) {
    assert.deepEqual(run(program, args, one), printed, program);
  }
  const main = 'dist/src/cli/main.js';
  assert.deepEqual(run('libexec/node', [main, ...args], one), printed);
});

test('a link where install.sh puts it is not followed by another program, and others are', async (t) => {
  const one = await installation(t);
  await inPath(one, '20.0.0');
  await rm(join(one.bin, 'readlink'));
  const program = join(one.prefix, 'libexec/kfd-checkpoint');
  const installed = join(one.bin, '../lib/kfd-checkpoint');
  await mkdir(join(one.bin, '../lib'));
  await symlink(one.prefix, installed);
  await symlink('../lib/kfd-checkpoint/libexec/kfd-checkpoint', join(one.bin, 'kfd-checkpoint'));
  assert.deepEqual(run(join(one.bin, 'kfd-checkpoint'), args, one), printed);

  // Another installation has this place.
  await rm(installed);
  await cp(one.prefix, installed, { recursive: true });
  await writeFile(join(installed, 'dist/src/cli/main.js'), '');
  await rm(join(one.bin, 'kfd-checkpoint'));
  await symlink(program, join(one.bin, 'kfd-checkpoint'));
  await symlink('/usr/bin/readlink', join(one.bin, 'readlink'));
  assert.deepEqual(run(join(one.bin, 'kfd-checkpoint'), args, one), printed);
});

test('a private Node.js comes first, however old the one in PATH is', async (t) => {
  const one = await installation(t);
  await inPath(one, '12.22.9');
  const own = join(one.prefix, 'node/bin/node');
  await mkdir(join(one.prefix, 'node/bin'), { recursive: true });
  await writeFile(own, '#!/bin/sh\necho "private: $*"\n', { mode: 0o755 });
  const { stdout } = run(join(one.prefix, 'libexec/node'), ['--flag', 'x.js', '1'], one);
  assert.equal(stdout, 'private: --flag x.js 1\n');
});

test('without Node.js, or with an old one, there is a sentence with what to do', async (t) => {
  const one = await installation(t);
  const program = join(one.prefix, 'libexec/kfd-checkpoint');
  const remedy = 'install nodejs 20 or later, or the package kfd-checkpoint-node\n';
  assert.deepEqual(run(program, ['version'], one), {
    status: 127,
    stdout: '',
    stderr: `kfd-checkpoint: no Node.js in PATH: ${remedy}`,
  });
  for (const version of ['19.9.0', '18.20.4', '4.0.0']) {
    await inPath(one, version);
    assert.deepEqual(run(program, ['version'], one), {
      status: 1,
      stdout: '',
      stderr: `kfd-checkpoint: Node.js ${version} is too old: ${remedy}`,
    });
  }
});

test('the oldest Node.js is the one that package.json names', async () => {
  const { engines } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as {
    readonly engines: { readonly node: string };
  };
  const text = await readFile(join(repository, 'libexec/require-node.cjs'), 'utf8');
  assert.equal(engines.node, `>=${/ < (\d+)\)/.exec(text)?.[1]}`);
});
