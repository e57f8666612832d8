/** Where our shim runs in unit tests: a bundle, and what stands for the stock shim. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ownSocket } from '../../shim/bootstrap/own-socket.js';
import { numberField } from '../../src/protobuf.js';
import { repository, temporaryFolder } from './paths.js';
import { type Answering, type TestServer, testServer } from './ttrpc-server.js';

/** A bundle, and a stock shim that starts nothing: it answers with the address of a server of this process. */
export interface Host {
  readonly folder: string;
  readonly bundle: string;
  readonly stock: TestServer;
  /** Stands for the stock shim's process. */
  readonly process: ChildProcess;
  readonly shim: string;
}

/** `answer`: to the start. `connect`: the stock shim's answer to Connect, for its pid. */
export async function host(
  t: TestContext,
  answer: Buffer | 'as it is' = 'as it is',
  connect: (pid: number) => ReturnType<Answering> = (pid) => ({ payload: numberField(1, pid) }),
): Promise<Host> {
  const folder = await temporaryFolder(t);
  const process = spawn('sleep', ['600'], { stdio: 'ignore' });
  t.after(() => process.kill('SIGKILL'));
  const stock = await testServer(t, ({ service, method, payload }) => {
    if (service !== 'containerd.task.v3.Task') return { code: 12, message: 'unimplemented' };
    if (method === 'Connect') return connect(process.pid ?? 0);
    return { payload };
  });
  const bundle = join(folder, 'one');
  await mkdir(bundle);
  await mkdir(join(folder, 'bin'));
  await writeFile(join(folder, 'answer'), answer === 'as it is' ? `unix://${stock.path}` : answer);
  await writeFile(join(bundle, 'address'), `unix://${stock.path}`);
  const program = join(folder, 'bin/containerd-shim-runc-v2');
  await writeFile(
    program,
    `#!/bin/sh
cat >'${folder}/stdin'
for word in "$@"; do printf '%s\\n' "$word"; done >'${folder}/args'
case $* in
  *start) cat '${folder}/answer' ;;
  *broken) echo 'stock: broken' >&2; exit 3 ;;
  *) printf 'stock did it' ;;
esac
`,
  );
  await chmod(program, 0o755);
  const shim = join(folder, 'containerd-shim-kfd-v2');
  await symlink(join(repository, 'shim/containerd-shim-kfd-v2'), shim);
  return { folder, bundle, stock, process, shim };
}

export interface Run {
  readonly status: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Runs the shim as containerd does, until nobody holds its output. */
export async function run(
  { folder, bundle, shim }: Host,
  action: string,
  options: { input?: Buffer; env?: Record<string, string>; publish?: string } = {},
): Promise<Run> {
  const publish = options.publish ?? join(folder, 'bin/containerd');
  const flags = ['-namespace', 'default', '-address', '/run/c.sock', '-publish-binary', publish];
  const child = spawn(shim, [...flags, '-id', 'one', '-debug', action], {
    cwd: bundle,
    env: { ...process.env, ...options.env },
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.input ?? Buffer.alloc(0));
  const stdout: Buffer[] = [];
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const status = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { status, stdout: Buffer.concat(stdout), stderr };
}

/** Where runc keeps the container of `run`. */
export function runcFolder({ folder }: Host): string {
  return join(folder, 'runc/default/one');
}

export async function knownToRunc(one: Host): Promise<void> {
  const folder = runcFolder(one);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'state.json'), '{}');
  const options = { binary_name: 'runc', root: join(one.folder, 'runc'), shim_cgroup: '/x' };
  await writeFile(join(one.bundle, 'options.json'), JSON.stringify(options));
}

export async function until(what: string, holds: () => boolean): Promise<void> {
  for (let i = 0; i < 400; i += 1) {
    if (holds()) return;
    await delay(10);
  }
  assert.fail(`not within 4 s: ${what}`);
}

/** The proxy's pid, from the file that delete reads. */
export function proxyPid({ stock }: Host): number {
  return Number(readFileSync(`${ownSocket(stock.path)}.processes`, 'utf8').split(' ')[0]);
}

/** One that has ended may stay a zombie for a while: it is not our child. */
export function isAlive(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}
