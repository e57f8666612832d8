/** KFD's debugfs file `mqds` (kfd_process_queue_manager.c:pqm_debugfs_mqds@6.12.118). */

/** An MQD in hexadecimal digits, 32 bytes a row. */
export function mqd(words: number, last: readonly number[] = []): string {
  const all = [...Array<number>(words - last.length).fill(0xabc), ...last];
  const hex = (value: number) => value.toString(16).padStart(8, '0');
  const rows: string[] = [];
  for (let at = 0; at < words; at += 8) {
    rows.push(
      `    ${hex(4 * at)}: ${all
        .slice(at, at + 8)
        .map(hex)
        .join(' ')}\n`,
    );
  }
  return rows.join('');
}

export const processLine = (pid: number) => `Process ${pid} PASID 0x8001:\n`;

export const computeQueue = (gpuId: number) =>
  `  Compute queue on device ${gpuId.toString(16)}\n${mqd(512)}`;

export const sdmaQueue = (gpuId: number, engine: number, queue: number, words = 128) =>
  `  SDMA queue on device ${gpuId.toString(16)}\n${mqd(words, [engine, queue])}`;

/** Files of a host on which `pid` has SDMA queues on GPU `gpuId`; [engine, queue] of each. */
export function hostWithQueues(
  pid: number,
  gpuId: number,
  queues: readonly (readonly [number, number])[],
): Record<string, string> {
  const folder = `sys/class/kfd/kfd/proc/${pid}/queues`;
  const files: Record<string, string> = {
    'sys/kernel/debug/kfd/mqds':
      processLine(pid) + queues.map(([engine, queue]) => sdmaQueue(gpuId, engine, queue)).join(''),
  };
  for (const i of queues.keys()) {
    files[`${folder}/${i}/type`] = '1';
    files[`${folder}/${i}/gpuid`] = `${gpuId}`;
  }
  return files;
}
