/** The demo's verdict: reads what both guests saw; exit status 0 only when all of it is right. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

interface SessionEnd {
  readonly outcome: string;
  readonly content_bytes?: number;
  readonly timings_us: Readonly<Record<string, number>>;
}

const [share = '.', ...flags] = process.argv.slice(2);

function account(name: string): Readonly<Record<string, string>> {
  return JSON.parse(readFileSync(join(share, name), 'utf8')) as Record<string, string>;
}

interface Transfer {
  readonly bytes: number;
  readonly wallUs: number;
  readonly engine: string;
  readonly slowest: string;
}

function lines<Line>(name: string): Line[] {
  const text = readFileSync(join(share, name), 'utf8').trim();
  return text.split('\n').map((line) => JSON.parse(line) as Line);
}

/** Of each pages file, as the session that moved it logged. */
function transfers(name: string): Transfer[] {
  return lines<{ readonly result?: Transfer }>(name).flatMap(({ result }) =>
    result?.wallUs === undefined ? [] : [result],
  );
}

/** The transfer that took longest, in words. */
function slowest(all: readonly Transfer[]): string {
  const [longest] = [...all].sort((a, b) => b.wallUs - a.wallUs);
  if (longest === undefined) return 'nothing moved';
  const { engine, slowest: stage, bytes, wallUs } = longest;
  return `slowest stage: ${stage} (${engine}, ${(bytes / wallUs).toFixed(1)} MB/s)`;
}

/** The last line a session logs. */
function sessionEnd(name: string): SessionEnd {
  const end = lines<SessionEnd>(name).findLast(({ timings_us }) => timings_us !== undefined);
  if (end === undefined) throw new Error(`${name}: the session logged no timings`);
  return end;
}

const left = account('leave.json');
const came = account('arrive.json');
const dump = sessionEnd('dump.log');
const restore = sessionEnd('restore.log');
const drained = transfers('dump.log');
const uploaded = transfers('restore.log');
const moved = [...drained, ...uploaded];

/** Each claim of the demo, and whether it was seen. */
const claims: readonly (readonly [string, boolean])[] = [
  [
    'VRAM was filled and a barrier was pending',
    /^ready .*barrier=pending/.test(left['ready'] ?? ''),
  ],
  ['the second machine is another boot', left['boot_id'] !== came['boot_id']],
  ['it has another host name', left['hostname'] !== came['hostname']],
  ['every frame of the archive is sound', came['archive_check'] === 'ok'],
  [
    "the GPU's copy engine moved all contents",
    drained.length > 0 && uploaded.length > 0 && moved.every(({ engine }) => engine === 'sdma'),
  ],
  ['the session restored and resumed', restore.outcome === 'restored'],
  ['the pending barrier completed', / barrier=completed/.test(came['answer'] ?? '')],
  ['all of VRAM matches', /^verified bytes=134217728 /.test(came['answer'] ?? '')],
  ['the program finished', came['exit_code'] === '0'],
];
const verified = claims.every(([, seen]) => seen);
const ms = (us: number | undefined): number => Math.round((us ?? 0) / 1000);
const result = {
  verified,
  archive_bytes: Number(came['archive_bytes']),
  gpu_content_bytes: restore.content_bytes ?? 0,
  checkpoint_ms: Number(left['checkpoint_ms']),
  restore_ms: Number(came['restore_ms']),
  upload_ms: ms(restore.timings_us['upload']),
  upload_overlapped_ms: ms(restore.timings_us['upload_overlapped']),
};

const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
const phases = (end: SessionEnd): string =>
  Object.entries(end.timings_us)
    .map(([name, us]) => `${name} ${ms(us)}`)
    .join(', ');
const report = [
  'kfd-checkpoint demo: real driver (amdgpu and amdkfd of Linux 6.12), simulated GPU, emulated machine',
  ...claims.map(([claim, seen]) => `  ${seen ? 'seen    ' : 'NOT SEEN'}  ${claim}`),
  `  archive ${mib(result.archive_bytes)}, GPU contents ${mib(result.gpu_content_bytes)}`,
  `  checkpoint ${result.checkpoint_ms} ms; session: ${phases(dump)} (ms); ${slowest(drained)}`,
  `  restore ${result.restore_ms} ms; session: ${phases(restore)} (ms); ${slowest(uploaded)}`,
  `  upload ${result.upload_ms} ms, of which ${result.upload_overlapped_ms} ms beside CRIU's own work`,
  verified ? 'verified (real driver, simulated GPU)' : 'NOT VERIFIED',
];
const json = flags.includes('--json');
(json ? process.stderr : process.stdout).write(`${report.join('\n')}\n`);
if (json) process.stdout.write(`${JSON.stringify(result)}\n`);
process.exitCode = verified ? 0 : 1;
