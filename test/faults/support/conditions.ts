/** What may be wrong with a host, for a while. */

import { existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { attempt, run } from '../../e2e/support/command.js';
import { addFault, forgetFaults } from '../../e2e/support/gpu.js';
import type { Condition } from '../row.js';
import type { Job } from './job.js';
import { find } from './victims.js';

/** Folder of $TMPDIR in every row. */
export const temporary = '/tmp/faults-tmp';
const logs = '/var/log/kfd-checkpoint';
const sockets = '/run/kfd-checkpoint';
const containers = '/var/lib/containers';
const ownCgroup = '/sys/fs/cgroup/kfd-checkpoint';
const enomem = 12;
const criuOp = 0x22;
/** Where a file system on a disk of its own lies for `image EIO`. */
const disk = '/tmp/faults-disk';

/** Undoes it. */
type Undo = () => Promise<void>;
export type Apply = (job: Job) => Promise<Undo>;

async function smallMount(folder: string, options: string): Promise<Undo> {
  mkdirSync(folder, { recursive: true });
  await run('mount', '-t', 'tmpfs', '-o', options, 'small', folder);
  return async () => void (await attempt('umount', '--lazy', folder));
}

/** A tmpfs gets as much room as it has contents, and `spareKib`. */
async function shrink(folder: string, spareKib: number): Promise<Undo> {
  const line = (await run('df', '-k', folder)).split('\n').at(-1) ?? '';
  const [, size, used] = line.split(/\s+/).map(Number);
  const resize = (kib: number) => run('mount', '-o', `remount,size=${kib}k`, folder);
  await resize((used ?? 0) + spareKib);
  return async () => void (await resize(size ?? 0));
}

async function readOnly(...folders: readonly string[]): Promise<Undo> {
  for (const folder of folders) {
    await run('mount', '--bind', folder, folder);
    await run('mount', '-o', 'remount,bind,ro', folder);
  }
  return async () => {
    for (const folder of folders) await attempt('umount', '--lazy', folder);
  };
}

/** A disk whose end is gone: what lies there gives EIO. */
async function brokenDisk({ image }: Job): Promise<Undo> {
  mkdirSync(image, { recursive: true });
  await run('modprobe', 'loop');
  await run('cp', '--sparse=always', '/repo/build/faults-disk.img', disk);
  const device = await run('losetup', '--find', '--show', disk);
  await run('mount', device, image);
  await run('sync', '-f', image);
  truncateSync(disk, 256 << 10);
  return async () => {
    await attempt('umount', '--lazy', image);
    await attempt('losetup', '-d', device);
  };
}

async function limitSession(limit: (pid: number) => Promise<Undo>): Promise<Undo> {
  const pid = find('session', -1);
  if (pid === undefined) throw new Error('there is no session');
  return limit(pid);
}

function fault(rule: string): Apply {
  return async () => {
    addFault(rule);
    return async () => forgetFaults();
  };
}

export const conditions: Readonly<Record<Condition, Apply>> = {
  'log full': async () => {
    const undo = await smallMount(logs, 'size=8k');
    await attempt('dd', 'if=/dev/zero', `of=${join(logs, 'full')}`, 'bs=4k');
    return undo;
  },
  'run full': () => smallMount(sockets, 'size=4k,nr_inodes=1'),
  'archive full': (job) => smallMount(dirname(job.tried), 'size=64k'),
  'image full': () => shrink(containers, 64),
  'image full soon': () => shrink(containers, 1500),
  'tmp full': () => smallMount(temporary, 'size=64k'),
  'image EIO': brokenDisk,
  'session without memory': async () => {
    const file = `${ownCgroup}/memory.max`;
    if (!existsSync(file)) throw new Error(`${file}: missing`);
    const before = readFileSync(file, 'utf8').trim();
    writeFileSync(file, '16M');
    return async () => writeFileSync(file, before);
  },
  'kernel without memory': fault(`kfd ${criuOp} 1 ${enomem}`),
  'kernel without memory later': fault(`kfd ${criuOp} 2 ${enomem}`),
  'session without descriptors': () =>
    limitSession(async (pid) => {
      await run('prlimit', '--pid', String(pid), '--nofile=1:1');
      return async () => undefined;
    }),
  'clock back': async () => {
    await run('date', '-s', '-1 hour');
    return async () => void (await run('date', '-s', '+1 hour'));
  },
  'etc read-only': () => readOnly('/etc'),
  // podman's own folder is a mount of its own, as on many hosts.
  'var read-only': () => readOnly('/var/log', '/var/tmp', '/var/lib/kfd-checkpoint'),
  cancelled: async () => {
    const criu = find('criu', -1);
    // Its answer may come after the next step only.
    const told = attempt('kfd-checkpoint', 'cancel', String(criu), '--reason', 'a fault');
    return async () => void (await told);
  },
};
