/** Snippets for SELinux and AppArmor: their compilers take them, and they name the paths of the product. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { copyFile, mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { defaultConfigPath } from '../../src/config.js';
import {
  actionScriptPath,
  launcherPath,
  loadedPlugin,
  runFolder,
} from '../../src/criu/state-folder.js';
import { isMissing } from './installed-program.js';
import { repository, temporaryFolder } from './paths.js';

const folder = join(repository, 'packaging/confinement');
const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin` };

function run(command: string, ...args: readonly string[]) {
  const { status, stderr, stdout } = spawnSync(command, args, { env, encoding: 'utf8' });
  return { status, text: stderr + stdout };
}

test('checkmodule and semodule_package take the SELinux module', {
  skip: isMissing('checkmodule') || isMissing('semodule_package'),
}, async (t) => {
  const out = await temporaryFolder(t);
  const [module, whole] = [join(out, 'kfd_checkpoint.mod'), join(out, 'kfd_checkpoint.pp')];
  const source = join(folder, 'kfd_checkpoint.te');
  const compiled = run('checkmodule', '-M', '-m', '-o', module, source);
  assert.equal(compiled.status, 0, compiled.text);
  const labels = join(folder, 'kfd_checkpoint.fc');
  const packed = run('semodule_package', '-o', whole, '-m', module, '-f', labels);
  assert.equal(packed.status, 0, packed.text);
  assert.ok((await stat(whole)).size > (await stat(labels)).size);
  const wrong = join(out, 'wrong.te');
  await writeFile(wrong, readFileSync(source, 'utf8').replace('type lib_t;', ''));
  assert.notEqual(run('checkmodule', '-M', '-m', '-o', module, wrong).status, 0);
});

test('apparmor_parser takes the AppArmor rules', {
  skip: isMissing('apparmor_parser'),
}, async (t) => {
  const out = await temporaryFolder(t);
  const rules = join(out, 'abstractions/kfd-checkpoint');
  await mkdir(join(out, 'abstractions'));
  await copyFile(join(folder, 'kfd-checkpoint.apparmor'), rules);
  const profile = join(out, 'profile');
  const tunables = '@{PROC}=/proc/\n@{pid}=[1-9]*\n';
  const body = 'profile engine /usr/bin/engine {\n  include <abstractions/kfd-checkpoint>\n}\n';
  await writeFile(profile, tunables + body);
  const parse = () => run('apparmor_parser', '-Q', '-K', '-T', '--base', out, profile);
  const parsed = parse();
  assert.equal(parsed.status, 0, parsed.text);
  await writeFile(rules, '  /dev/kfd nonsense,\n');
  assert.notEqual(parse().status, 0, 'a wrong rule is seen');
});

/** A path of AppArmor as an expression: no slash for one star, anything for two. */
function asExpression(path: string): RegExp {
  const text = path
    .replaceAll('.', '\\.')
    .replace(/\{(.*?)\}/g, (_, words: string) => `(?:${words.replaceAll(',', '|')})`)
    .replaceAll(/\*+/g, (stars) => (stars.length > 1 ? '.*' : '[^/]*'));
  return new RegExp(`^${text}$`);
}

/** Whether a rule lets this program be run within the profile. */
function mayRun(path: string): boolean {
  const rules = readFileSync(join(folder, 'kfd-checkpoint.apparmor'), 'utf8');
  const programs = [...rules.matchAll(/^ {2}(\/\S+) rix,$/gm)].map(([, one = '']) => one);
  return programs.some((one) => asExpression(one).test(path));
}

/** What the scripts of an installation run of the system. */
const tools = ['cat', 'date', 'mkdir', 'readlink', 'rm', 'rmdir', 'timeout', 'tr', 'umount'];
const own = '/usr/lib/kfd-checkpoint';
const ownPrograms = [
  `${own}/hooks/criu-action`,
  `${own}/libexec/kfd-checkpoint`,
  `${own}/libexec/node`,
  `${own}/node/bin/node`,
  `${own}/shim/containerd-shim-kfd-v2`,
];

test('AppArmor lets programs be run: ours, Node.js wherever it is, shells and tools', () => {
  const node = ['/usr/bin/node', '/usr/local/bin/node'];
  const shells = ['/bin/bash', '/bin/dash', '/usr/bin/bash', '/usr/bin/dash'];
  const system = tools.flatMap((name) => [`/bin/${name}`, `/usr/bin/${name}`]);
  for (const path of [
    launcherPath,
    actionScriptPath,
    ...ownPrograms,
    ...node,
    ...shells,
    ...system,
  ]) {
    assert.ok(mayRun(path), path);
  }
  for (const path of ['/usr/bin/mount', `${own}/dist/hooks/precreate.js`, `${own}/criu/x.so`]) {
    assert.ok(!mayRun(path), path);
  }
});

test('scripts run these tools, and each one is run', () => {
  const scripts = ['hooks/precreate', 'hooks/criu-action', 'shim/containerd-shim-kfd-v2'];
  const all = [...scripts, 'libexec/kfd-checkpoint', 'libexec/node'].map((path) =>
    readFileSync(join(repository, path), 'utf8').replace(/^\s*#.*$/gm, ''),
  );
  for (const tool of tools) {
    const called = new RegExp(`(?:^|[;|(&)] ?)\\s*${tool}[ ;]`, 'm');
    assert.ok(
      all.some((text) => called.test(text)),
      tool,
    );
  }
});

/** Whether a rule of the file contexts is for this path. */
function labelled(path: string): string | undefined {
  const rules = readFileSync(join(folder, 'kfd_checkpoint.fc'), 'utf8').trim().split('\n');
  const [, ...fields] = rules
    .map((rule) => rule.split('\t'))
    .map(([pattern = '', ...rest]) => [pattern, ...rest])
    .find(([pattern]) => new RegExp(`^${pattern}$`).test(path)) ?? [''];
  return fields.at(-1)?.split(':')[2];
}

test('the labels are for the paths that the product uses', () => {
  assert.deepEqual(
    [loadedPlugin, launcherPath, actionScriptPath, defaultConfigPath, `${runFolder}/7/sock`].map(
      labelled,
    ),
    ['lib_t', 'bin_t', 'bin_t', 'container_config_t', 'container_var_run_t'],
  );
  for (const path of ownPrograms) assert.equal(labelled(path), 'bin_t', path);
  assert.equal(labelled('/etc/criu/default.conf'), undefined);
});
