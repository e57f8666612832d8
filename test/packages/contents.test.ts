/** What is in the packages: `npm run package` comes first. */

import assert from 'node:assert/strict';
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repository, temporaryFolder } from '../unit/paths.js';
import { archive, deb, entriesOf, output, packages, rpm } from './built.js';

const names = ['kfd-checkpoint', 'kfd-checkpoint-node'];
const own = '/usr/lib/kfd-checkpoint';

test('files belong to root, nobody else may write, and only programs can be run', () => {
  for (const name of names) {
    const entries = entriesOf(deb(name));
    assert.ok(entries.length > 5, name);
    const odd = entries.filter(
      ({ mode, owner }) =>
        owner !== 'root/root' || !/^(d|-)rwxr-xr-x$|^-rw-r--r--$|^lrwxrwxrwx$/.test(mode),
    );
    assert.deepEqual(odd, [], name);
  }
  const runnable = entriesOf(deb('kfd-checkpoint')).filter(({ mode }) => mode === '-rwxr-xr-x');
  const programs = runnable.map(({ path }) => path);
  assert.deepEqual(programs, [
    `${own}/bin/checkpointctl-kfd`,
    `${own}/criu/kfd_checkpoint.so`,
    `${own}/hooks/criu-action`,
    `${own}/hooks/precreate`,
    `${own}/lib/kfd_checkpoint.node`,
    `${own}/libexec/kfd-checkpoint`,
    `${own}/libexec/kfd-checkpoint-launch`,
    `${own}/libexec/kfd-checkpoint-selftest`,
    `${own}/libexec/maintain`,
    `${own}/libexec/node`,
    `${own}/shim/containerd-shim-kfd-v2`,
  ]);
});

test('all is in our folder, but for what the system looks for elsewhere', () => {
  const outside = entriesOf(deb('kfd-checkpoint'))
    .filter(({ mode, path }) => !mode.startsWith('d') && !path.startsWith(`${own}/`))
    .map(({ path }) => path)
    .filter((path) => !/^\/usr\/share\/(doc|man|lintian|bash-completion|zsh|fish)\//.test(path));
  assert.deepEqual(outside, [
    '/etc/logrotate.d/kfd-checkpoint',
    '/usr/lib/systemd/system/kfd-checkpoint-refresh.service',
    '/usr/lib/systemd/system/kfd-checkpoint-spare.service',
    '/usr/lib/systemd/system-preset/85-kfd-checkpoint.preset',
    '/usr/lib/tmpfiles.d/kfd-checkpoint.conf',
    '/usr/bin/checkpointctl-kfd',
    '/usr/bin/containerd-shim-kfd-v2',
    '/usr/bin/kfd-checkpoint',
  ]);
});

test('the RPM packages have the files of the Debian packages', () => {
  const debians = (name: string) =>
    entriesOf(deb(name))
      .filter(({ mode }) => !mode.startsWith('d'))
      .map(({ path }) => path)
      .filter((path) => !/\/lintian\/|\/changelog\.gz$/.test(path))
      .map((path) => path.replace(/(\/man\/.*)\.gz$/, '$1'));
  for (const name of names) {
    const list = output('rpm', '-qp', '--qf', '[%{FILEMODES:perms} %{FILENAMES}\n]', rpm(name));
    const files = list.split('\n').filter((line) => line !== '' && !line.startsWith('d'));
    const paths = files.map((line) => line.split(' ')[1] ?? '').sort();
    assert.deepEqual(paths, debians(name).sort(), name);
  }
});

test('the folder that the man page names has the documents', () => {
  const path = '/usr/share/man/man8/kfd-checkpoint.8.gz';
  const page = output(
    'sh',
    '-c',
    `dpkg-deb --fsys-tarfile '${deb('kfd-checkpoint')}' | tar -xO '.${path}' | gzip -d`,
  );
  const [, folder = ''] = /such as limits\.md, are in (\S+)\.$/m.exec(page) ?? [];
  const paths = entriesOf(deb('kfd-checkpoint')).map((entry) => entry.path);
  assert.ok(paths.includes(`${folder.replaceAll('\\-', '-')}/limits.md`), folder);
});

test('packages depend on Node.js 20, ours or another, and on libraries', () => {
  const depends = output('dpkg-deb', '--field', deb('kfd-checkpoint'), 'Depends');
  assert.match(depends, /^nodejs \(>= 20\) \| kfd-checkpoint-node, /);
  for (const library of ['libc6', 'libdrm-amdgpu1', 'liblz4-1', 'libzstd1', 'libstdc++6']) {
    assert.ok(depends.includes(library), `${library}: ${depends}`);
  }
  const requires = output('rpm', '-qp', '--requires', rpm('kfd-checkpoint'));
  assert.match(requires, /^\(nodejs\(engine\) >= 20 or kfd-checkpoint-node\)$/m);
  assert.match(requires, /^libdrm_amdgpu\.so\.1\(\)\(64bit\)$/m);
  assert.doesNotMatch(output('rpm', '-qp', '--provides', rpm('kfd-checkpoint')), /\.so/);
});

test('lintian finds no error and no warning but those that are overridden with a reason', () => {
  const found = output('lintian', '--allow-root', ...names.map(deb))
    .split('\n')
    .filter((line) => /^[EW]: /.test(line));
  assert.deepEqual(found, []);
});

/** Newest versions of symbols of Debian 12's C and C++ libraries. */
const newest: Readonly<Record<string, string>> = {
  GLIBC: '2.36',
  GLIBCXX: '3.4.30',
  CXXABI: '1.3.13',
  GCC: '12.0.0',
};

function isNewer(version: string, limit: string): boolean {
  const [a, b] = [version, limit].map((text) => text.split('.').map(Number));
  for (let i = 0; i < 3; i += 1) {
    const difference = (a?.[i] ?? 0) - (b?.[i] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}

test('native parts need no symbol that Debian 12 lacks, and no library but those declared', async (t) => {
  if (!/^12\b/.test(readFileSync('/etc/debian_version', 'utf8'))) {
    t.skip('a package that is built elsewhere than on Debian 12 depends on newer libraries');
    return;
  }
  const folder = await temporaryFolder(t);
  output('dpkg-deb', '--extract', deb('kfd-checkpoint'), folder);
  const libraries: Readonly<Record<string, RegExp>> = {
    'criu/kfd_checkpoint.so': /^(libc\.so\.6|ld-linux-x86-64\.so\.2)$/,
    'libexec/kfd-checkpoint-launch': /^(libc\.so\.6|ld-linux-x86-64\.so\.2)$/,
    'lib/kfd_checkpoint.node':
      /^(libc|libstdc\+\+|libgcc_s|libzstd|liblz4|libdrm_amdgpu)\.so\.[16]$/,
  };
  for (const [path, allowed] of Object.entries(libraries)) {
    const file = join(folder, own, path);
    const needed = [...output('readelf', '-dW', file).matchAll(/\(NEEDED\).*\[(.+)\]/g)];
    assert.ok(needed.length > 0, path);
    for (const [, name = ''] of needed) assert.match(name, allowed, path);
    const versions = output('readelf', '-VW', file).matchAll(
      /Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)/g,
    );
    const all = [...versions];
    assert.ok(all.length > 0, path);
    const late = all.filter(([, kind = '', version = '']) => isNewer(version, newest[kind] ?? '0'));
    assert.deepEqual(
      late.map(([text]) => text),
      [],
      path,
    );
  }
});

test('licences and the bill of materials name what the programs are made of', () => {
  const doc = '/usr/share/doc/kfd-checkpoint';
  const read = (path: string) =>
    output(
      'sh',
      '-c',
      `dpkg-deb --fsys-tarfile '${deb('kfd-checkpoint')}' | tar -xO '.${doc}/${path}'`,
    );
  const bill = JSON.parse(read('sbom.cdx.json')) as {
    readonly bomFormat: string;
    readonly serialNumber?: string;
    readonly components: readonly { readonly name: string; readonly group?: string }[];
  };
  assert.equal(bill.bomFormat, 'CycloneDX');
  assert.equal(bill.serialNumber, undefined);
  const { dependencies } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>;
  };
  const listed = bill.components.map(({ name, group }) => (group ? `${group}/${name}` : name));
  for (const name of Object.keys(dependencies)) assert.ok(listed.includes(name), name);
  assert.ok(!listed.includes('typescript'));
  assert.match(read('THIRD-PARTY-NOTICES'), /^valibot \d/m);
});

test('a second build has the same bytes', async (t) => {
  const kept = await temporaryFolder(t);
  cpSync(packages, kept, { recursive: true });
  // The time of the commit from which they were built, which may not be the newest one.
  process.env['SOURCE_DATE_EPOCH'] = output(
    'rpm',
    '-qp',
    '--qf',
    '%{BUILDTIME}',
    rpm(names[0] ?? ''),
  );
  output(join(repository, 'packaging/package.sh'));
  assert.deepEqual(readdirSync(packages).sort(), readdirSync(kept).sort());
  for (const name of readdirSync(kept)) {
    assert.ok(readFileSync(join(packages, name)).equals(readFileSync(join(kept, name))), name);
  }
  assert.ok(readFileSync(archive).length > 100_000);
});
