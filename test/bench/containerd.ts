/** What containers pay for our shim: the same containers through the stock shim, in turns. */

import { readFileSync } from 'node:fs';
import { bytesField } from '../../src/protobuf.js';
import { connectTo } from '../../src/ttrpc/client.js';
import { attempt, run, until } from '../e2e/support/command.js';
import { image } from '../e2e/support/container.js';
import { Containerd, ourRuntime, stockRuntime, Task } from '../e2e/support/containerd.js';
import { show, spread } from './stats.js';
import { seconds } from './timing.js';

const runs = 12;
const calls = 2000;

interface Life {
  readonly run: number;
  readonly remove: number;
}

/** Seconds of `ctr run -d` and, once it has ended, of `ctr task rm`. */
async function life(runtime: string): Promise<Life> {
  const task = new Task('timed');
  const started = await seconds(
    'ctr',
    'run',
    '-d',
    '--runtime',
    runtime,
    image,
    task.id,
    'sleep',
    '1000',
  );
  await run('ctr', 'task', 'kill', '-s', 'KILL', task.id);
  await until('its end', async () => (await task.status()) === 'STOPPED');
  const began = performance.now();
  await attempt('ctr', 'task', 'rm', task.id); // its status is the task's
  const remove = (performance.now() - began) / 1000;
  await run('ctr', 'container', 'rm', task.id);
  return { run: started, remove };
}

/** Microseconds of each of many calls, in turns to the stock shim behind our proxy and to the proxy. */
async function latencies(task: Task): Promise<{ stock: number[]; ours: number[] }> {
  const { proxy, stock } = task.shims().sockets;
  const clients = {
    stock: await connectTo(stock, () => undefined),
    ours: await connectTo(proxy, () => undefined),
  };
  const service = 'containerd.task.v2.Task';
  const request = { service, method: 'Connect', payload: bytesField(1, task.id) };
  const taken = { stock: [] as number[], ours: [] as number[] };
  for (let i = 0; i < calls; i++) {
    for (const which of ['stock', 'ours'] as const) {
      const began = performance.now();
      await clients[which].call(request, 10_000);
      taken[which].push((performance.now() - began) * 1000);
    }
  }
  for (const client of Object.values(clients)) client.close();
  return taken;
}

/** What the process keeps to itself and has written, bytes: what one more of it takes. */
function privateBytes(pid: number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Private_Dirty: +(\d+) kB$/m.exec(rollup)?.[1]) * 1024;
}

export async function containerd(): Promise<Record<string, unknown>> {
  const daemon = await Containerd.start();
  try {
    const stock: Life[] = [];
    const ours: Life[] = [];
    await life(stockRuntime); // what is read for the first time
    await life(ourRuntime);
    for (let i = 0; i < runs; i++) {
      for (const first of i % 2 === 0 ? [true, false] : [false, true]) {
        (first ? stock : ours).push(await life(first ? stockRuntime : ourRuntime));
      }
    }
    const task = await Task.start(ourRuntime, 'measured', 'sleep', '1000');
    const fresh = privateBytes(task.shims().pids.proxy);
    const taken = await latencies(task);
    const used = privateBytes(task.shims().pids.proxy);
    await task.remove();

    const ratio = (key: keyof Life) =>
      spread(ours.map((one) => one[key])).median / spread(stock.map((one) => one[key])).median;
    const callRatio = spread(taken.ours).median / spread(taken.stock).median;
    const of = (lives: readonly Life[], key: keyof Life) => show(lives.map((one) => one[key]));
    const row = (name: string, key: keyof Life) =>
      `  ${name.padEnd(12)} ours ${of(ours, key)} s, stock ${of(stock, key)} s, ` +
      `ratio ${ratio(key).toFixed(3)}\n`;
    const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1);
    process.stdout.write(
      `containers through containerd\n${row('ctr run -d', 'run')}${row('ctr task rm', 'remove')}` +
        `  a call       ours ${show(taken.ours, 0)} us, stock ${show(taken.stock, 0)} us, ` +
        `ratio of medians ${callRatio.toFixed(2)}\n` +
        `  memory of its own: ${mib(fresh)} MiB when started, ${mib(used)} MiB after ${calls} calls\n`,
    );
    return {
      stock,
      ours,
      run_ratio: ratio('run'),
      remove_ratio: ratio('remove'),
      call_ratio: callRatio,
      private_bytes: { fresh, used },
    };
  } finally {
    await daemon.stop();
  }
}
