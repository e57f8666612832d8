/**
 * How long --leave-running stops a container with 1 GiB on the GPU. With `short_freeze` its contents are copied aside;
 * without it, the container stands still until they are written. The link is modelled. Copies in VRAM are 20 times
 * faster than the link.
 */

import { rmSync } from 'node:fs';
import { archivePath } from '../e2e/support/archive.js';
import { Container } from '../e2e/support/container.js';
import { setDmaRate, setVramRate } from '../e2e/support/gpu.js';
import { configure } from '../e2e/support/product.js';
import { type LogLine, sessionEnd, sessionLog } from '../e2e/support/session.js';
import { show, spread } from './stats.js';
import { seconds } from './timing.js';

const linkMbps = 400;
const vramMbps = 8000;
const rounds = 3;
const worker = ['--vram-mib', '1024', '--step-ms', '0'];

/** Seconds. */
interface Sample {
  /** From the first process that is paused to the end of all pauses. */
  readonly freeze: number;
  /** Of that, until the session had all states and began with contents. */
  readonly read_state: number;
  /** Until contents were copied aside, or written: the part that is ours. */
  readonly contents: number;
  /** Until CRIU was done with everything else and asked whether it may go on. */
  readonly criu: number;
  /** CRIU had to wait after that. */
  readonly gate: number;
  readonly whole: number;
}

const phase = ({ timings_us: times }: LogLine, name: string) => (times?.[name] ?? 0) / 1e6;

async function checkpoint(job: Container, short: boolean): Promise<Sample> {
  configure({ short_freeze: short, compress: 'none' });
  const archive = archivePath('crun', 'freeze.tar');
  const flags = ['--leave-running', '--keep', '--compress', 'none', '--export', archive];
  const whole = await seconds('podman', 'container', 'checkpoint', ...flags, job.name);
  rmSync(archive);
  const end = await sessionEnd(job, 'dump');
  const sealed = sessionLog(job, 'dump').find(({ msg }) => msg === 'sealed');
  if (sealed === undefined) throw new Error(`${job.name}: no sealed image`);
  return {
    freeze: phase(end, 'freeze'),
    read_state: phase(end, 'read_state'),
    contents: phase(sealed, short ? 'snapshot' : 'drain'),
    criu: phase(end, 'overlap'),
    gate: phase(end, 'gate') + (short ? 0 : phase(end, 'seal')),
    whole,
  };
}

export async function freeze(): Promise<Record<string, unknown>> {
  const job = await Container.start({ engine: 'crun', worker });
  const samples = { short: [] as Sample[], stopped: [] as Sample[] };
  setDmaRate(linkMbps);
  setVramRate(vramMbps);
  try {
    await checkpoint(job, true); // the first one touches the machine's memory for the first time
    for (let round = 0; round < rounds; round++) {
      // Alternating order, so that a drift of the machine favours neither.
      for (const short of round % 2 === 0 ? [true, false] : [false, true]) {
        samples[short ? 'short' : 'stopped'].push(await checkpoint(job, short));
      }
    }
  } finally {
    setDmaRate(0);
    setVramRate(0);
    configure({});
  }
  const right = (await job.control.ask('verify', 600)).startsWith('verified ');
  await job.remove();
  const of = (name: keyof Sample) => ({
    short: samples.short.map((sample) => sample[name]),
    stopped: samples.stopped.map((sample) => sample[name]),
  });
  const ratio = (name: keyof Sample) =>
    spread(of(name).short).median / spread(of(name).stopped).median;
  const row = (text: string, name: keyof Sample) =>
    `  ${text.padEnd(34)} ${show(of(name).short)} s, stop and copy ${show(of(name).stopped)} s, ` +
    `ratio ${ratio(name).toFixed(2)}`;
  process.stdout.write(
    [
      `--leave-running with 1 GiB, link ${linkMbps} MB/s, in VRAM ${vramMbps} MB/s (simulated)`,
      row('the GPU stands still', 'freeze'),
      row('  of that, states are read', 'read_state'),
      row('  beside each other: contents', 'contents'),
      row("    and CRIU's own dump", 'criu'),
      row('  after both, CRIU waits', 'gate'),
      row('whole podman checkpoint', 'whole'),
      `  data ${right ? 'right' : 'WRONG'}`,
      '',
    ].join('\n'),
  );
  return { link_mbps: linkMbps, vram_mbps: vramMbps, ...samples, ratio: ratio('freeze'), right };
}
