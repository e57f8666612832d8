/** One run of the program with a hostile input: starts it, watches it, and ends it beyond its limits. */

import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { repository } from '../unit/paths.js';
import type { ProbeReport } from './programs/probe.js';
import { defaultLimits, type HostileInput, type Outcome } from './suite.js';

/** How often a run is looked at, in milliseconds. */
const period = 25;
/** Bytes of output that are kept. */
const maxOutput = 1 << 20;

/** Runs the input in a folder of its own, which is removed. */
export async function run(input: HostileInput): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), 'kfd-hostile-'));
  try {
    return await runIn(folder, input);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function runIn(folder: string, input: HostileInput): Promise<Outcome> {
  const place = (name: string) => join(folder, name);
  for (const name of ['dir', 'tmp', 'bin']) await mkdir(place(name));
  await writeFile(place('bin/podman'), `#!/bin/sh\necho "$@" >>${place('podman')}\n`);
  await chmod(place('bin/podman'), 0o755);
  const args = [input.verb, ...(await input.args(place('dir')))];
  const before = listed(folder);

  const program = join(repository, 'dist', input.program ?? 'src/cli/main.js');
  const probe = join(repository, 'dist/test/hostile/programs/probe.js');
  const node = [process.execPath, '--import', probe, program, ...args];
  const start = process.hrtime.bigint();
  const child = spawn('/bin/bash', ['-c', `exec "$@" ${input.streams ?? ''}`, 'bash', ...node], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: `${place('bin')}:/usr/bin:/bin`,
      TMPDIR: place('tmp'),
      HOSTILE_REPORT: place('report'),
      ...input.env,
    },
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (chunk: Buffer) => {
      if (output[name].length < maxOutput) output[name] += chunk.toString('utf8');
    });
  }
  const pid = child.pid ?? 0;
  const ended = new Promise<{ status: number | undefined; signal: string | undefined }>((resolve) =>
    child.on('close', (status, signal) =>
      resolve({ status: status ?? undefined, signal: signal ?? undefined }),
    ),
  );
  const watching = watch(pid, input, () => child.kill('SIGKILL'));
  await input.during?.({ pid, dir: place('dir') });
  const end = await ended;
  const seen = await watching;
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  // A program that was killed leaves no report.
  const report: Partial<ProbeReport> = existsSync(place('report'))
    ? (JSON.parse(readFileSync(place('report'), 'utf8')) as ProbeReport)
    : {};
  const podman = existsSync(place('podman')) ? readFileSync(place('podman'), 'utf8') : '';
  const after = listed(folder);
  return {
    ...end,
    ...output,
    seconds,
    code: report.code,
    memoryBytes: Math.max(seen.memoryBytes, report.memoryBytes ?? 0),
    writtenBytes: Math.max(seen.writtenBytes, report.writtenBytes ?? 0),
    podmanStarts: podman.split('\n').length - 1,
    changes: [
      ...[...after].filter((name) => !before.has(name)).map((name) => `+${name}`),
      ...[...before].filter((name) => !after.has(name)).map((name) => `-${name}`),
    ],
  };
}

/** Follows a process to its end. `end` is called once it is beyond a limit. */
async function watch(pid: number, input: HostileInput, end: () => void) {
  const limits = { ...defaultLimits, ...input.limits };
  const deadline = Date.now() + limits.seconds * 1000;
  const seen = { memoryBytes: 0, writtenBytes: 0 };
  for (;;) {
    const status = procFile(pid, 'status');
    // A zombie has no memory any more.
    if (status === '' || !/^VmHWM:/m.test(status)) return seen;
    seen.memoryBytes = 1024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]);
    seen.writtenBytes = Number(/^wchar: (\d+)$/m.exec(procFile(pid, 'io'))?.[1] ?? 0);
    const isOver =
      seen.memoryBytes > limits.memoryBytes ||
      seen.writtenBytes > limits.writtenBytes ||
      Date.now() > deadline;
    if (isOver) {
      end();
      return seen;
    }
    await sleep(period);
  }
}

function procFile(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    return '';
  }
}

/** All files that the program could make, in order. Those in `dir` are named relative to it. */
function listed(folder: string): Set<string> {
  const below = (name: string) =>
    readdirSync(join(folder, name), { recursive: true, encoding: 'utf8' });
  return new Set([...below('dir'), ...below('tmp').map((name) => `$TMPDIR/${name}`)].sort());
}
