/** What the parts of this test share: the verb, the network, and what a migration leaves. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { attempt, type Outcome, until } from '../e2e/support/command.js';
import { hostB, setNetwork, there } from '../e2e/support/host-b.js';

/** A container of either engine. */
export interface Moved {
  readonly name: string;
}

export const worker: readonly string[] = [
  '--vram-mib',
  '64',
  '--changing-mib',
  '32',
  '--changes-mib',
  '4',
  '--step-ms',
  '500',
];

export function migrate(job: Moved, ...options: string[]): Promise<Outcome> {
  return attempt('kfd-checkpoint', 'migrate', ...options, job.name, hostB);
}

/** Codes of the reasons that a dry run has against the move, and all that it says. */
export async function reasonsAgainst(job: Moved, ...options: string[]) {
  const { stdout, stderr } = await migrate(job, ...options, '--dry-run', '--format', 'json');
  try {
    const { reasons } = JSON.parse(stdout) as { reasons: { code: string; message: string }[] };
    return { codes: reasons.map(({ code }) => code), said: stdout };
  } catch {
    throw new Error(`${job.name}: a dry run says ${stdout} ${stderr}`);
  }
}

/** Prints what a migration has said, for whoever reads the results. */
export function show({ stdout, stderr }: Pick<Outcome, 'stdout' | 'stderr'>): void {
  process.stdout.write(`${`${stderr}\n${stdout}`.replaceAll(/^/gm, '# ')}\n`);
}

/** Nothing of a migration is left on either host. */
export async function nothingLeft(): Promise<void> {
  const folders =
    '/var/lib/kfd-checkpoint/migrations /var/lib/kfd-checkpoint/kept /run/kfd-checkpoint';
  const files = `find ${folders} -type f -o -type s -o -type p 2>/dev/null`;
  const list = `${files}; grep ' /run/kfd-checkpoint' /proc/mounts || true`;
  const left = async () => (await attempt('sh', '-c', list)).stdout + (await there(list));
  await until('nothing of the migration is left', async () => (await left()) === '', 30, 500).catch(
    async () => assert.equal(await left(), ''),
  );
}

/** Cuts the network while `work` lasts. */
export async function withoutNetwork<T>(work: () => Promise<T>): Promise<T> {
  await setNetwork('down');
  try {
    return await work();
  } finally {
    await setNetwork('up');
  }
}

/** Starts the verb; `stderr` is what it has said so far. */
export function begin(job: Moved, ...options: string[]) {
  const words = ['migrate', ...options, job.name, hostB];
  const child = spawn('kfd-checkpoint', words, { stdio: ['ignore', 'ignore', 'pipe'] });
  const said = { stderr: '' };
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said.stderr += text;
  });
  return { said, ended: once(child, 'close').then(([status]) => status as number | null) };
}
