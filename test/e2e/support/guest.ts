/** What a guest needs before its first scenario, beside the product. */

import { existsSync, writeFileSync } from 'node:fs';
import { run } from './command.js';

/** Whether systemd is process 1, as with the option --systemd of lab.sh. */
export const underSystemd = existsSync('/run/systemd/system');

/** Under emulation a task that is switched to finds none of its translated code: to wait for its turn costs it less. */
export function calmScheduler(): void {
  writeFileSync('/sys/kernel/debug/sched/base_slice_ns', '20000000');
  writeFileSync('/sys/kernel/debug/sched/features', 'NO_WAKEUP_PREEMPTION');
}

/** The containers' image. */
export async function loadImage(): Promise<void> {
  await run('podman', 'load', '-q', '-i', '/repo/build/lab/programs/image.tar');
}
