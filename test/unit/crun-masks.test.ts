import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { externalMounts, isMountsImage } from '../../src/archive/criu-mounts.js';
import { mountsOf } from '../../src/os/mountinfo.js';
import { hasCrunMasks } from '../../src/runtime/crun-masks.js';
import { archive, checkpointOfHere } from './archive-builder.js';
import { cli, errorIn, fakeRun } from './cli-context.js';
import { migrate, sourceHost, sshTo, targetHost, targetPrograms } from './migrate-hosts.js';
import { mountsImage } from './mounts-image.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

/** As the kernel writes it for containers of crun 1.21 and 1.28. */
const overlay = '60 50 0:41 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/l\n';
const tmpfs = '109 61 0:55 / /proc/acpi ro,relatime - tmpfs tmpfs ro,nr_blocks=1,nr_inodes=1\n';
const mask = '109 61 0:26 /crun/.empty-directory /proc/acpi ro,nosuid - tmpfs tmpfs rw\n';
const key = '/run/crun/.empty-directory';

test('masked folders of crun are known by what is mounted there', async (t) => {
  const root = await temporaryFolder(t);
  await mkdir(join(root, 'proc/7'), { recursive: true });
  const mounted = (text: string) => writeFile(join(root, 'proc/7/mountinfo'), text);
  await mounted(overlay + tmpfs);
  assert.equal(await hasCrunMasks(7, root), false);
  await mounted(overlay + mask);
  assert.equal(await hasCrunMasks(7, root), true);
  assert.equal(await hasCrunMasks(8, root), false, 'a process that has ended');
  await mounted('60 50 0:41 /a\\040b /c\\011d rw - ext4 /dev/vda rw\n60\n');
  assert.deepEqual(await mountsOf(7, root), [{ root: '/a b', point: '/c\td' }]);
});

test('external mounts of an image; a damaged one has none', () => {
  const image = mountsImage(undefined, key, '/proc/kcore');
  assert.deepEqual(externalMounts(image), [key, '/proc/kcore']);
  assert.deepEqual(externalMounts(image.subarray(0, -1)), [key], 'cut in its last entry');
  assert.deepEqual(externalMounts(Buffer.concat([Buffer.alloc(8), image])), [], 'another magic');
  assert.deepEqual(externalMounts(Buffer.alloc(3)), []);
  const bent = Buffer.from(image);
  bent[12] = 0x0f; // A wire type that is none.
  assert.deepEqual(externalMounts(bent), []);
  assert.equal(isMountsImage('checkpoint/mountpoints-12.img'), true);
  assert.equal(isMountsImage('mountpoints-12.img'), false);
});

test('check refuses masked folders of a newer crun where crun is too old', async (t) => {
  const root = await bentHost(t, 'two-gpus', {});
  const name = 'checkpoint/mountpoints-13.img';
  const masked = await archive(t, { ...checkpointOfHere(), [name]: mountsImage(undefined, key) });
  const plain = await archive(t, { ...checkpointOfHere(), [name]: mountsImage(undefined) });
  const check = (path: string, crun: string) =>
    cli(['check', path, '--format', 'json', '--root', root], {
      run: fakeRun({ 'crun --version': `crun version ${crun}\n` }),
    });
  const refused = await check(masked, '1.21');
  assert.equal(refused.code, 3);
  const { code, message, hint } = errorIn(refused.stderr);
  assert.equal(code, 'E_HOST');
  assert.match(message, /crun: 1\.21 here cannot restore masked folders of crun 1\.24 or later$/);
  assert.equal(hint, 'install crun 1.24 or later here');
  assert.equal((await check(masked, '1.24')).code, 0);
  assert.equal((await check(plain, '1.21')).code, 0);
});

test('a migration of such a container is refused where crun there is too old', async (t) => {
  const source = await sourceHost(t);
  await mkdir(join(source, 'proc/4711'), { recursive: true });
  const reasons = async (mounts: string, crun: string) => {
    await writeFile(join(source, 'proc/4711/mountinfo'), mounts);
    await sshTo(t, await targetHost(t), {
      ...targetPrograms,
      'crun --version': `crun version ${crun}\n+CRIU\n`,
    });
    const { stdout } = await migrate(source, ['--dry-run', '--format', 'json']);
    return (JSON.parse(stdout) as { reasons: { message: string }[] }).reasons;
  };
  const [reason, ...others] = await reasons(overlay + mask, '1.21');
  assert.match(reason?.message ?? '', /^crun: 1\.21 there cannot restore masked folders/);
  assert.deepEqual(others, []);
  assert.deepEqual(await reasons(overlay + mask, '1.28'), []);
  assert.deepEqual(await reasons(overlay + tmpfs, '1.21'), []);
});
