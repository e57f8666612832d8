/**
 * What a container without a GPU pays: pairs of checkpoint and restore with and without us. In a
 * guest whose clock counts instructions: otherwise single ones differ by more than what is measured.
 */

import { run } from '../e2e/support/command.js';
import { image } from '../e2e/support/container.js';
import { show, spread } from './stats.js';
import { seconds } from './timing.js';

const pairs = 20;
const name = 'plain';

/** Seconds of one checkpoint and one restore in place. */
async function once(): Promise<{ checkpoint: number; restore: number }> {
  return {
    checkpoint: await seconds('podman', 'container', 'checkpoint', name),
    restore: await seconds('podman', 'container', 'restore', name),
  };
}

export async function plain(): Promise<Record<string, unknown>> {
  const program = 'while :; do sleep 1; done';
  await run('podman', 'run', '-d', '--network', 'none', '--name', name, image, 'sh', '-c', program);
  const with_: { checkpoint: number; restore: number }[] = [];
  const without: { checkpoint: number; restore: number }[] = [];
  for (let pair = 0; pair < pairs; pair++) {
    // Alternating order, so that a drift of the machine favours neither.
    for (const ours of pair % 2 === 0 ? [true, false] : [false, true]) {
      await run('kfd-checkpoint', 'configure', ...(ours ? [] : ['--undo']));
      await run('sync');
      await once(); // the first after a change reads what is new
      (ours ? with_ : without).push(await once());
    }
  }
  await run('kfd-checkpoint', 'configure');
  await run('podman', 'rm', '-f', '-t', '0', name);
  const ratio = (key: 'checkpoint' | 'restore') =>
    spread(with_.map((sample) => sample[key])).median /
    spread(without.map((sample) => sample[key])).median;
  const row = (key: 'checkpoint' | 'restore') =>
    `  ${key.padEnd(10)}  with ${show(
      with_.map((s) => s[key]),
      3,
    )} s, without ${show(
      without.map((s) => s[key]),
      3,
    )} s, ratio ${ratio(key).toFixed(3)}`;
  process.stdout.write(`a container without a GPU\n${row('checkpoint')}\n${row('restore')}\n`);
  return {
    with: with_,
    without,
    checkpoint_ratio: ratio('checkpoint'),
    restore_ratio: ratio('restore'),
  };
}
