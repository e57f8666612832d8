import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Mismatch } from '../../src/gpu/mismatch.js';
import { SshConnection } from '../../src/migrate/connection.js';
import { programs } from './able-host.js';
import {
  containerId,
  migrate,
  sourceHost,
  sourcePrograms,
  sshTo,
  standInSsh,
  targetHost,
  targetPrograms,
} from './migrate-hosts.js';
import { temporaryFolder } from './paths.js';

interface Report {
  readonly able: boolean;
  readonly memory_bytes: number;
  readonly content_bytes: number;
  readonly gpus: readonly { readonly here: { readonly gpu_id: number } }[];
  readonly reasons: readonly Mismatch[];
}

const dryRun = ['--dry-run', '--format', 'json'];

test('a target that can take the container is told so, and what would move', async (t) => {
  const source = await sourceHost(t);
  await sshTo(t, await targetHost(t));
  const { stdout, error } = await migrate(source, dryRun);
  assert.equal(error, undefined, error?.message);
  const report = JSON.parse(stdout) as Report;
  assert.deepEqual(
    [report.able, report.reasons, report.memory_bytes, report.content_bytes],
    [true, [], 5120, 2097152],
  );
  assert.deepEqual(
    report.gpus.map(({ here }) => here.gpu_id),
    [51966],
  );
  const text = await migrate(source, ['--dry-run']);
  assert.match(text.stdout, /job would move to root@host-b: 5\.0 KiB of memory, 2\.0 MiB of VRAM/);
});

test('every reason at once, each with code, cause and next step', async (t) => {
  const source = await sourceHost(t);
  const target = await targetHost(t, {
    'proc/sys/kernel/osrelease': '6.1.0\n',
    'proc/meminfo': 'MemAvailable: 4 kB\n',
  });
  const { 'podman image': _, 'crun --version': __, ...others } = targetPrograms;
  const there = {
    ...others,
    'podman container': '',
    'criu --version': 'Version: 4.0\n',
    'criu check': 1,
  };
  await sshTo(t, target, there);
  const { stdout, error } = await migrate(source, dryRun);
  const { able, reasons } = JSON.parse(stdout) as Report;
  assert.equal(able, false);
  const told = reasons.map(({ code, message }) => `${code} ${message}`).join('\n');
  for (const part of [
    /^E_HOST criu check: /m,
    /^E_HOST criu: 4\.1\.1 here wrote what 4\.0 there may not read$/m,
    /^E_HOST crun: runs the container here, and is not in PATH there$/m,
    /^E_KERNEL_MISMATCH kernel release: /m,
    /^E_HOST container job: there is one with this name already$/m,
    /^E_IMAGE_MISSING image docker\.io\/library\/job:1: not there$/m,
    /^E_HOST memory: the container uses 5120 bytes, 4096 are free there$/m,
  ])
    assert.match(told, part);
  assert.ok(reasons.every(({ hint }) => hint.length > 5));
  assert.equal(error?.code, reasons[0]?.code);
  assert.match(error?.message ?? '', /would not move to root@host-b: .* \(and \d+ more\)$/);
});

test('what a container has written to its root file system needs room on both hosts', async (t) => {
  const source = await sourceHost(t);
  const target = await targetHost(t);
  await mkdir(join(target, 'var/lib/containers'), { recursive: true });
  await sshTo(t, target, { ...targetPrograms, 'podman info': '/var/lib/containers/storage\n' });
  const [container] = JSON.parse(sourcePrograms['podman container']) as object[];
  const changed = { ...container, GraphDriver: { Name: 'overlay', Data: { UpperDir: '/u' } } };
  const here = (bytes: number) => ({
    ...sourcePrograms,
    'podman container': JSON.stringify([{ ...changed, StaticDir: source }]),
    'du --summarize': `${bytes}\t/u\n`,
  });
  const asked = await migrate(source, dryRun, here(9e14));
  const { reasons } = JSON.parse(asked.stdout) as Report;
  const told = reasons.map(({ message }) => message).join('\n');
  assert.match(told, /^memory: up to \d{15,16} bytes arrive there/m);
  assert.match(
    told,
    /^\/var\/lib\/containers\/storage: a restore writes about \d{15,16} bytes there/m,
  );
  assert.match(told, /^\S+( and \S+)+ here: a checkpoint writes about \d{15,16} bytes/m);
  const without = await migrate(source, dryRun);
  assert.deepEqual((JSON.parse(without.stdout) as Report).reasons, []);
  const text = await migrate(source, ['--dry-run'], here(3 << 20));
  assert.match(text.stdout, /2\.0 MiB of VRAM, 3\.0 MiB of changed files$/m);
});

test('a kernel that does not track memory is a warning, unless nothing is sent ahead', async (t) => {
  const source = await sourceHost(t);
  await sshTo(t, await targetHost(t));
  const warned = async (...options: string[]) => {
    const here = { ...sourcePrograms, 'criu check': 1 };
    const { stdout } = await migrate(source, [...dryRun, ...options], here);
    const { warnings } = JSON.parse(stdout) as { warnings: Mismatch[] };
    return warnings.map(({ message }) => message).filter((text) => text.startsWith('memory'));
  };
  assert.match((await warned()).join(), /^memory: is not sent ahead: the kernel here/);
  assert.deepEqual(await warned('--precopy', '0'), []);
});

test('all contexts of a process count, and memory in a cgroup of another name', async (t) => {
  const source = await sourceHost(t);
  const files = {
    'sys/class/kfd/kfd/proc/4712/context_3/vram_51966': '1048576\n',
    'sys/class/kfd/kfd/proc/4712/context_3/queues/1/type': '0\n',
    'proc/4712/cgroup': `0::/own.slice/libpod-${containerId}.scope/container\n`,
    [`sys/fs/cgroup/own.slice/libpod-${containerId}.scope/memory.stat`]: 'anon 7\n',
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(source, path)), { recursive: true });
    await writeFile(join(source, path), text);
  }
  await sshTo(t, await targetHost(t));
  const { stdout } = await migrate(source, dryRun);
  const report = JSON.parse(stdout) as Report;
  assert.deepEqual([report.memory_bytes, report.content_bytes], [7, 3 << 20]);
});

test('the room of the folder that --store names is looked at', async (t) => {
  const source = await sourceHost(t);
  await sshTo(t, await targetHost(t));
  const { stdout } = await migrate(source, [...dryRun, '--store', '/srv/data/none/yet']);
  const { target } = JSON.parse(stdout) as { target: { store: { path: string } } };
  assert.equal(target.store.path, '/srv/data/none/yet');
});

test('what arrives is kept in memory, and too little of it names the option for a folder', async (t) => {
  const source = await sourceHost(t);
  const told = async (kilobytes: number, ...options: string[]) => {
    await sshTo(t, await targetHost(t, { 'proc/meminfo': `MemAvailable: ${kilobytes} kB\n` }));
    const { stdout } = await migrate(source, [...dryRun, ...options]);
    return JSON.parse(stdout) as Report & { target: { store: object } };
  };
  const enough = await told(80_000);
  assert.deepEqual(enough.reasons, []);
  assert.deepEqual(enough.target.store, {
    path: '/run/kfd-checkpoint/migrations',
    free_bytes: 81_920_000,
    in_memory: true,
  });
  const few = await told(70_000);
  assert.deepEqual(
    few.reasons.map(({ code, message }) => `${code} ${message}`),
    [
      'E_HOST memory: up to 71844736 bytes arrive there, the container uses 5120, ' +
        '71680000 are free',
    ],
  );
  assert.match(few.reasons[0]?.hint ?? '', /keep what arrives in a folder there: --store DIR$/);
  assert.deepEqual((await told(70_000, '--store', '/var/tmp')).reasons, []);
});

test('a difference that may be ignored is a reason only without the option', async (t) => {
  const source = await sourceHost(t);
  await sshTo(t, await targetHost(t, { 'sys/module/amdgpu/srcversion': 'ABC\n' }));
  const strict = await migrate(source, dryRun);
  assert.match(strict.error?.message ?? '', /amdgpu srcversion/);
  const ignored = await migrate(source, [...dryRun, '--ignore-mismatch', 'driver']);
  assert.equal(ignored.error, undefined, ignored.error?.message);
});

test('without a connection, a program or an answer the reason names what to try', async (t) => {
  const source = await sourceHost(t);
  const told = async (body: string) => {
    await standInSsh(t, body);
    const { error } = await migrate(source, ['--dry-run']);
    return `${error?.code} ${error?.message} | ${error?.hint}`;
  };
  assert.equal(
    await told('echo "ssh: connect to host host-b port 22: No route to host" >&2; exit 255'),
    'E_HOST ssh root@host-b: no connection: ssh: connect to host host-b port 22: No route to host' +
      ' | make "ssh root@host-b true" work',
  );
  assert.match(await told('exit 127'), /^E_HOST root@host-b: has no kfd-checkpoint \| install/);
  assert.match(await told('exit 1'), /^E_HOST root@host-b: ended without an answer \| run/);
  assert.match(await told('echo Welcome; cat >/dev/null'), /^E_PROTOCOL .* says "Welcome" \| make/);
  assert.match(await told('printf "kfd-checkpoint migrate 1\\n\\0"'), /^E_PROTOCOL .* middle of/);
});

test('what the other side has said is not lost when it ends before it is asked', async (t) => {
  const pid = join(await temporaryFolder(t), 'pid');
  await standInSsh(t, `printf "kfd-checkpoint migrate 1\\n\\0"; echo $$ >${pid}`);
  const connection = await SshConnection.open('host-b');
  while (!existsSync(pid) || existsSync(`/proc/${readFileSync(pid, 'utf8').trim()}`)) {
    await delay(10);
  }
  // Node.js looks at the streams of a process after it has ended, once.
  await delay(100);
  await assert.rejects(connection.next(), { code: 'E_PROTOCOL', message: /in the middle of/ });
});

test('an ssh that does not end when it is asked to is killed', { timeout: 300_000 }, async (t) => {
  const pid = join(await temporaryFolder(t), 'pid');
  await standInSsh(t, `echo $$ >${pid}; kill -STOP $$; exec sleep 1000`);
  const connection = await SshConnection.open('host-b');
  while (!existsSync(pid) || readFileSync(pid, 'utf8') === '') await delay(10);
  await connection.close();
  assert.equal(existsSync(`/proc/${readFileSync(pid, 'utf8').trim()}`), false);
});

test('a process of ssh that stays with its standard error is not waited for', {
  timeout: 60_000,
}, async (t) => {
  const source = await sourceHost(t);
  const pid = join(source, 'pid');
  const stays = `sleep 1000 </dev/null >/dev/null & echo $! >${pid}`;
  await standInSsh(t, `${stays}; echo 'ssh: no route' >&2; exit 255`);
  const { error } = await migrate(source, ['--dry-run']);
  process.kill(Number(readFileSync(pid, 'utf8')), 'SIGKILL');
  assert.match(error?.message ?? '', /no connection: ssh: no route$/);
});

test('what would start or remove the stopped container is a reason', async (t) => {
  const source = await sourceHost(t);
  await sshTo(t, await targetHost(t));
  const [one] = JSON.parse(sourcePrograms['podman container']) as object[];
  const bent = {
    ...one,
    Pod: 'p',
    Config: { Labels: { PODMAN_SYSTEMD_UNIT: 'job.service' } },
    HostConfig: { AutoRemove: true, RestartPolicy: { Name: 'always' } },
  };
  const here = { ...sourcePrograms, 'podman container': JSON.stringify([bent]) };
  const { stdout } = await migrate(source, dryRun, here);
  const { reasons } = JSON.parse(stdout) as Report;
  assert.deepEqual(
    reasons.map(({ code }) => code),
    Array(4).fill('E_UNSUPPORTED_STATE'),
  );
});

test('a host that ssh would take for an option is refused', async (t) => {
  const source = await sourceHost(t);
  await standInSsh(t, 'exit 0');
  for (const host of ['-oProxyCommand=x', '', 'a b']) {
    const option = await migrate(source, ['--dry-run'], sourcePrograms, host);
    assert.equal(option.error?.message, `${host}: not [USER@]HOST`);
  }
});

test('a container that does not run or has no GPU state is refused here', async (t) => {
  const source = await sourceHost(t);
  await standInSsh(t, 'exit 1');
  const container = sourcePrograms['podman container'];
  const stopped = container.replace('"running"', '"exited"');
  const cases = [
    [stopped, 'E_USAGE', /is exited, and does not run/],
    [container.replaceAll('c0c0', 'dddd'), 'E_NO_GPU', /no process of it uses the GPU/],
  ] as const;
  for (const [output, code, message] of cases) {
    const programsHere = { ...programs, 'podman container': output };
    const { error } = await migrate(source, ['--dry-run'], programsHere);
    assert.equal(error?.code, code);
    assert.match(error?.message ?? '', message);
  }
  const none = await migrate(source, ['--dry-run'], { ...programs, 'podman container': 125 });
  assert.equal(none.error?.code, 'E_NOT_FOUND');
  const strange = await migrate(source, ['--dry-run'], { ...programs, 'podman container': '[]' });
  assert.match(strange.error?.message ?? '', /unexpected output for container job/);
});
