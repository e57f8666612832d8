/** Installation, update, removal and purge of the Debian packages, in a sandbox: of this host, and of Debian 13. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newerVersions, output, rpm } from './built.js';
import { inSandbox, type System, systems } from './systems.js';

/** As README says. What is only recommended comes from a mirror, and is not asked for here. */
const install =
  '(cd /build/packages && apt-get install --yes --no-install-recommends ' +
  './kfd-checkpoint_*.deb ./kfd-checkpoint-node_*.deb)';
const [newer] = newerVersions;
const update = `apt-get install --yes /build/newer-packages/kfd-checkpoint_${newer}_amd64.deb`;
const reinstall = install.replace('install ', 'install --reinstall ');
const criu = '/etc/criu/default.conf';
const copies = '/var/lib/kfd-checkpoint';
const plugin = '/usr/lib/kfd-checkpoint/criu/kfd_checkpoint.so';
/** What migrations leave when all is well. */
const migrated =
  `mkdir -p ${copies}/kept ${copies}/migrations ${copies}/store/0123; ` +
  `touch ${copies}/last-migration.json ${copies}/.last-migration.json.7.tmp`;
/** GPU contents of a migration that has not ended. */
const contents = `${copies}/kept/4567/kfd-pages-0-80.img`;
const stillNeeded = `mkdir -p ${copies}/kept/4567; echo contents >${contents}`;
/** The only file that is left there, and what is said of it. */
const onlyContents = `test "$(find ${copies} ! -type d)" = ${contents}; test ! -e ${copies}/store`;
const saysSo = new RegExp(
  `^kfd-checkpoint: not removed, because a container may need it: ${copies}/kept$`,
  'm',
);

/** Runs the script, which ends at the first failure, and returns what it printed. */
type Printed = (script: string) => string;

const printedOn =
  (system: System): Printed =>
  (script) => {
    const { status, stdout, stderr } = inSandbox(system, `set -eu\n${script}`);
    assert.equal(status, 0, stdout + stderr);
    return stdout;
  };

/** A test on each system. */
function everywhere(name: string, body: (printed: Printed, system: System) => void): void {
  for (const system of systems) {
    test(`${system.name}: ${name}`, { skip: system.skip }, () => body(printedOn(system), system));
  }
}

everywhere('an installation sets up no engine, and says what does', (printed) => {
  const text = printed(
    `${install}; test ! -e ${copies}; test ! -e ${criu}; kfd-checkpoint --version`,
  );
  assert.match(text, /now run "kfd-checkpoint configure"/);
  assert.match(text, /^kfd-checkpoint \d+\.\d+\.\d+$/m);
});

everywhere('the private Node.js runs the programs where there is no other', (printed) => {
  const text = printed(`
    ${install}
    PATH=/bin:/sbin; export PATH
    rm -f /usr/bin/node /usr/local/bin/node
    /usr/bin/kfd-checkpoint --version`);
  assert.match(text, /^kfd-checkpoint \d/m);
});

everywhere(
  'an update renews the copies that CRIU loads, only where an engine is set up',
  (printed) => {
    printed(`
    ${install}; ${reinstall}; test ! -e ${copies}
    kfd-checkpoint configure
    cp ${plugin} /tmp/old
    ${update}
    test "$(kfd-checkpoint --version)" = 'kfd-checkpoint ${newer}'
    if cmp -s /tmp/old ${plugin}; then exit 1; fi
    cmp ${copies}/criu/kfd_checkpoint.so ${plugin}
    grep -q 'libdir ${copies}' ${criu}`);
  },
);

everywhere('a removal undoes configure for both engines before files go', (printed) => {
  printed(`
    mkdir -p /etc/criu; echo 'ghost-limit 2M' >${criu}
    ${install}
    kfd-checkpoint configure
    kfd-checkpoint configure containerd --containerd 2.1
    apt-get remove --yes kfd-checkpoint
    test "$(cat ${criu})" = 'ghost-limit 2M'
    test ! -e ${copies}
    test ! -e /usr/share/containers/oci/hooks.d/50-kfd-checkpoint.json
    test ! -e /etc/containerd/conf.d/50-kfd-checkpoint.toml
    test ! -e /usr/bin/kfd-checkpoint`);
});

everywhere('a removal that cannot undo configure does not take place', (printed) => {
  const text = printed(`
    ${install}
    kfd-checkpoint configure
    sed -i /END/d ${criu}
    if apt-get remove --yes kfd-checkpoint 2>&1; then exit 1; fi
    test -e ${copies}/criu/kfd_checkpoint.so
    kfd-checkpoint --version`);
  assert.match(text, /not removed: CRIU would fail/);
  assert.match(text, /the marks of our lines are damaged/);
});

everywhere('a purge leaves no file and no folder', (printed) => {
  // What is not ours: records and caches of dpkg and apt.
  const others = '/var/lib/dpkg /var/lib/apt /var/log/dpkg.log /var/log/apt /var/cache';
  const list = (name: string) =>
    `for path in ${others}; do set -- "$@" -path "$path" -prune -o; done; ` +
    `find /etc /usr /var /var/tmp /run -xdev "$@" -print | LC_ALL=C sort >/tmp/${name}; set --`;
  printed(`
    ${list('before')}
    ${install}
    kfd-checkpoint configure
    kfd-checkpoint configure containerd --containerd 2.1
    mkdir -p /etc/kfd-checkpoint /var/log/kfd-checkpoint /run/kfd-checkpoint
    touch /etc/kfd-checkpoint/config.json /var/log/kfd-checkpoint/x.log /run/kfd-checkpoint.staging
    ${migrated}
    apt-get remove --yes kfd-checkpoint
    test -e /etc/kfd-checkpoint/config.json; test -e ${copies}/last-migration.json
    apt-get purge --yes kfd-checkpoint kfd-checkpoint-node
    ${list('after')}
    diff /tmp/before /tmp/after`);
});

everywhere('a purge keeps what a container may need, and says where it is', (printed) => {
  const text = printed(`
    ${install}
    ${migrated}; ${stillNeeded}
    apt-get purge --yes kfd-checkpoint 2>&1
    ${onlyContents}`);
  assert.match(text, saysSo);
});

everywhere('what RPM runs after a removal leaves only what a container may need', (printed) => {
  const script = output('rpm', '-qp', '--qf', '%{POSTUN}', rpm('kfd-checkpoint'));
  const text = printed(`
    cat >/tmp/postun <<'END'\n${script}\nEND
    ${migrated}; ${stillNeeded}
    sh /tmp/postun 1; test -e ${copies}/last-migration.json
    sh /tmp/postun 0 2>&1
    ${onlyContents}
    rm -r ${copies}/kept/4567/*
    sh /tmp/postun 0
    test ! -e ${copies}`);
  assert.match(text, saysSo);
});

everywhere('the archive installs below PREFIX, updates, and takes all of it away', (printed) => {
  const text = printed(`
    cd /tmp; tar -xf /build/packages/*.tar.zst; cd kfd-checkpoint-*
    PREFIX=/usr/local; export PREFIX
    ./install.sh
    /usr/local/bin/kfd-checkpoint configure
    echo /usr/local/gone >>/usr/local/lib/kfd-checkpoint/installed-files; touch /usr/local/gone
    ./install.sh
    test ! -e /usr/local/gone
    ${migrated}; ${stillNeeded}
    ./uninstall.sh --purge 2>&1
    ${onlyContents}
    rm -r ${copies}/kept/4567/*
    ./purge.sh
    test ! -e /usr/local/lib/kfd-checkpoint; test ! -e /usr/local/bin/kfd-checkpoint
    test ! -e /usr/local/share/doc/kfd-checkpoint
    test ! -e ${copies}; test ! -e /etc/logrotate.d/kfd-checkpoint`);
  assert.match(text, saysSo);
});

everywhere('the archive does not overwrite a package', (_, system) => {
  const { status, stderr } = inSandbox(
    system,
    `${install} >/dev/null; cd /tmp; tar -xf /build/packages/*.tar.zst; exec kfd-checkpoint-*/install.sh`,
  );
  assert.equal(status, 1);
  assert.match(stderr, /\/usr\/lib\/kfd-checkpoint is of a package/);
});
