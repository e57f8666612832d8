/** What a run of the scenarios is a result for: releases of the kernel and of all programs that take part. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { parseVersion } from '../../../src/runtime/versions.js';
import { attempt, run } from './command.js';
import { usualGpu } from './gpu.js';

/** Of Debian's next releases, unpacked. */
export const nextCriu = '/opt/next/criu';
export const haveNextCriu = existsSync(nextCriu);

/** The crun of the usual guest, in the one with the newest releases (test/lab/next-image.sh). */
const earlierCrunPath = '/opt/earlier/crun';
export const earlierCrun = existsSync(earlierCrunPath) ? earlierCrunPath : undefined;

/** ROCr whose IPC goes by dma-bufs: that of Debian 13 needs a call of AMD's own kernel for its IPC. */
export const nextLibraries = '/opt/next/usr/lib/x86_64-linux-gnu';
export const haveNextRocr = existsSync(`${nextLibraries}/libhsa-runtime64.so.1`);

/** `command`, a program of /usr/bin, with that ROCr in a container that has the libraries as /next. */
export function withNextRocr(command: string): string {
  return `/next/ld-linux-x86-64.so.2 --library-path /next /usr/bin/${command}`;
}

/** Where the next CRIU is mounted for a whole run. */
export const installedCriu = '/usr/sbin/criu';

/** The CRIU of the whole run is then the next one. */
export async function useNextCriu(): Promise<void> {
  await run('mount', '--bind', nextCriu, installedCriu);
}

/** A build of containerd that the user names; test/given.sh has put it there. */
const givenContainerd = '/repo/build/containerd';
const nextContainerd = '/opt/next/usr/bin';

/** The next containerd of the whole run is then that build; runc stays. */
export async function useGivenContainerd(): Promise<void> {
  for (const program of readdirSync(givenContainerd)) {
    await run('mount', '--bind', join(givenContainerd, program), join(nextContainerd, program));
  }
  const version = await run(join(nextContainerd, 'containerd'), '--version');
  console.log(`# the next containerd is ${version.split(' ')[2]}`);
}

const programs = ['podman', 'crun', 'runc', 'containerd', 'criu'] as const;

async function releaseOf(program: string): Promise<[string, string]> {
  const { stdout } = await attempt(program, '--version');
  const found = parseVersion(stdout)?.text;
  if (found === undefined) throw new Error(`${program} --version: ${stdout}`);
  return [program, found];
}

/** By name, in a table's order. Throws when a program is absent or tells no release. */
export async function releases(): Promise<Readonly<Record<string, string>>> {
  const [, system = ''] =
    /^PRETTY_NAME="(.*)"$/m.exec(readFileSync('/etc/os-release', 'utf8')) ?? [];
  const { driver, parameters } = usualGpu;
  const drivers = { real: "the kernel's amdgpu", kfdsim: ['kfdsim', ...parameters].join(' ') };
  const told = await Promise.all(programs.map(releaseOf));
  return { system, kernel: release(), driver: drivers[driver], ...Object.fromEntries(told) };
}
