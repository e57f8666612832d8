/** Installation, update, removal and purge of the Debian packages, in a sandbox on this host. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inSandbox } from './built.js';

/** As README says. What is only recommended comes from a mirror, and is not asked for here. */
const install =
  '(cd /packages && apt-get install --yes --no-install-recommends ' +
  './kfd-checkpoint_*.deb ./kfd-checkpoint-node_*.deb)';
/** The same release once more, as an update brings another one. */
const update = install.replace('install ', 'install --reinstall ');
const criu = '/etc/criu/default.conf';
const copies = '/var/lib/kfd-checkpoint';

/** Runs the script, which ends at the first failure, and returns what it printed. */
function printed(script: string): string {
  const { status, stdout, stderr } = inSandbox(`set -eu\n${script}`);
  assert.equal(status, 0, stdout + stderr);
  return stdout;
}

test('an installation sets up no engine, and says what does', () => {
  const text = printed(
    `${install}; test ! -e ${copies}; test ! -e ${criu}; kfd-checkpoint --version`,
  );
  assert.match(text, /now run "kfd-checkpoint configure"/);
  assert.match(text, /^kfd-checkpoint \d+\.\d+\.\d+$/m);
});

test('the private Node.js runs the programs where there is no other', () => {
  const text = printed(`
    ${install}
    PATH=/bin:/sbin; export PATH
    rm -f /usr/bin/node /usr/local/bin/node
    /usr/bin/kfd-checkpoint --version`);
  assert.match(text, /^kfd-checkpoint \d/m);
});

test('an update renews the copies that CRIU loads, only where an engine is set up', () => {
  printed(`
    ${install}; ${update}; test ! -e ${copies}
    kfd-checkpoint configure
    echo old >${copies}/criu/kfd_checkpoint.so
    ${update}
    cmp ${copies}/criu/kfd_checkpoint.so /usr/lib/kfd-checkpoint/criu/kfd_checkpoint.so
    grep -q 'libdir ${copies}' ${criu}`);
});

test('a removal undoes configure for both engines before files go', () => {
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

test('a removal that cannot undo configure does not take place', () => {
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

test('a purge leaves no file', () => {
  const list = (name: string) =>
    `find /etc /usr /var /run -xdev ! -type d ! -path '/var/lib/dpkg/*' ! -path '/var/lib/apt/*' ` +
    `! -path '/var/log/dpkg.log' ! -path '/var/log/apt/*' ! -path '/var/cache/*' | ` +
    `LC_ALL=C sort >/tmp/${name}`;
  printed(`
    ${list('before')}
    ${install}
    kfd-checkpoint configure
    mkdir -p /etc/kfd-checkpoint /var/log/kfd-checkpoint /run/kfd-checkpoint
    touch /etc/kfd-checkpoint/config.json /var/log/kfd-checkpoint/x.log /run/kfd-checkpoint.staging
    apt-get remove --yes kfd-checkpoint
    test -e /etc/kfd-checkpoint/config.json
    apt-get purge --yes kfd-checkpoint kfd-checkpoint-node
    ${list('after')}
    diff /tmp/before /tmp/after`);
});

test('the archive installs below PREFIX, updates, and takes all of it away', () => {
  printed(`
    cd /tmp; tar -xf /packages/*.tar.zst; cd kfd-checkpoint-*
    PREFIX=/usr/local; export PREFIX
    ./install.sh
    /usr/local/bin/kfd-checkpoint configure
    echo /usr/local/gone >>/usr/local/lib/kfd-checkpoint/installed-files; touch /usr/local/gone
    ./install.sh
    test ! -e /usr/local/gone
    ./uninstall.sh --purge
    test ! -e /usr/local/lib/kfd-checkpoint; test ! -e /usr/local/bin/kfd-checkpoint
    test ! -e /usr/local/share/doc/kfd-checkpoint
    test ! -e ${copies}; test ! -e /etc/logrotate.d/kfd-checkpoint`);
});

test('the archive does not overwrite a package', () => {
  const { status, stderr } = inSandbox(
    `${install} >/dev/null; cd /tmp; tar -xf /packages/*.tar.zst; exec kfd-checkpoint-*/install.sh`,
  );
  assert.equal(status, 1);
  assert.match(stderr, /\/usr\/lib\/kfd-checkpoint is of a package/);
});
