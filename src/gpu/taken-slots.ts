/**
 * Places of SDMA queues that processes have, from KFD's debugfs file `mqds`: the driver keeps engine and queue of an
 * SDMA queue in the last two words of its MQD (kfd_mqd_manager_v9.c:update_mqd_sdma, kfd_process_queue_manager.c:
 * pqm_debugfs_mqds@6.12.118). Nothing of sysfs has them. The file is memory of the driver: no register is read.
 */

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type SdmaEngines, type SdmaSlot, slotOf } from './sdma-slot.js';

/** A queue of a host. */
export interface TakenSlot {
  readonly pid: number;
  /** KFD's id of the GPU. */
  readonly gpuId: number;
  /** As the MQD counts them. */
  readonly engine: number;
  readonly queue: number;
}

/** Words of an SDMA MQD: v9_sdma_mqd, v11_sdma_mqd, and v10_sdma_mqd (v9_structs.h, v10_structs.h@6.12.118). */
const mqdWords: readonly number[] = [128, 130];
/** Some 5 KB for a compute queue. */
const maxBytes = 64 << 20;
/** The file waits for each process that is in a call of KFD, and for ever where a driver's call never ends. */
const longestMs = 2000;

const file = 'sys/kernel/debug/kfd/mqds';

/** All SDMA queues of this host; undefined where it cannot be known. `root`: folder of `/sys`. */
export async function readTakenSlots(root: string): Promise<readonly TakenSlot[] | undefined> {
  const path = join(root, file);
  const text = existsSync(path) ? await textByOther(path) : undefined;
  return text === undefined ? undefined : parseMqds(text);
}

/**
 * Another process reads: one that waits in the driver can never end, and a thread of this one could neither.
 * undefined: it failed, took too long, or said too much.
 */
function textByOther(path: string): Promise<string | undefined> {
  const reader = spawn('cat', [path], { stdio: ['ignore', 'pipe', 'ignore'] });
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const giveUp = () => {
      clearTimeout(late);
      reader.kill('SIGKILL');
      reader.stdout.destroy();
      reader.unref();
      resolve(undefined);
    };
    const late = setTimeout(giveUp, longestMs);
    reader.on('error', giveUp);
    reader.stdout.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > maxBytes) giveUp();
    });
    reader.on('close', (status) => {
      clearTimeout(late);
      resolve(status === 0 ? Buffer.concat(chunks).toString('latin1') : undefined);
    });
  });
}

/** The SDMA queues in a text of that file. Queues in another form than is known are left out. */
export function parseMqds(text: string): TakenSlot[] {
  const found: TakenSlot[] = [];
  let pid: number | undefined;
  let gpuId: number | undefined;
  let words: number[] = [];
  const end = () => {
    const [engine, queue] = words.slice(-2);
    const isKnown = pid !== undefined && gpuId !== undefined && mqdWords.includes(words.length);
    if (isKnown && engine !== undefined && queue !== undefined) {
      found.push({ pid: pid as number, gpuId: gpuId as number, engine, queue });
    }
    gpuId = undefined;
    words = [];
  };
  for (const line of text.split('\n')) {
    const row = /^ {4}([0-9a-f]{8}):((?: [0-9a-f]{8}){1,8}) ?$/.exec(line);
    if (row === null) {
      end();
      const process = /^Process (\d{1,10})\b/.exec(line)?.[1];
      if (process !== undefined) pid = Number(process);
      const device = /^ {2}SDMA queue on device ([0-9a-f]{1,8})$/.exec(line)?.[1];
      if (device !== undefined) gpuId = Number.parseInt(device, 16);
    } else if (gpuId !== undefined) {
      const values = (row[2] ?? '').trim().split(' ');
      // Rows of another MQD, or a gap: then it is no form that is known.
      if (Number.parseInt(row[1] ?? '', 16) !== words.length * 4) gpuId = undefined;
      words.push(...values.map((value) => Number.parseInt(value, 16)));
    }
  }
  end();
  return found;
}

/** Places of a process on a GPU. */
export function slotsOf(
  taken: readonly TakenSlot[],
  pid: number,
  gpuId: number,
  engines: SdmaEngines,
): SdmaSlot[] {
  return taken
    .filter((one) => one.pid === pid && one.gpuId === gpuId)
    .flatMap(({ engine, queue }) => slotOf(engine, queue, engines) ?? []);
}
