/** The scenario of the packages, in a guest with systemd where nothing of ours is installed. Prints TAP. */

import assert from 'node:assert/strict';
import { existsSync, rmSync } from 'node:fs';
import { run } from '../e2e/support/command.js';
import { calmScheduler, loadImage } from '../e2e/support/guest.js';

assert.ok(existsSync('/run/systemd/system'), 'this guest has no systemd: lab.sh --systemd');
calmScheduler();
// The guest's packages were unpacked without their documents. Ours are to be whole.
rmSync('/etc/dpkg/dpkg.cfg.d/99mmdebstrap');
// What a booted system has made long before: the guest's systemd starts little by itself.
await run('systemctl', 'start', 'sysinit.target', 'dbus.service', 'systemd-logind.service');
process.env['DEBIAN_FRONTEND'] = 'noninteractive';
await loadImage();
await import('./installed.js');
