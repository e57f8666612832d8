/** What an operator should know of a checkpoint before its restore. */

import { contentsMissing } from '../gpu/compare.js';
import type { KfdObjects } from '../gpu/kfd-objects.js';
import { isDetached } from '../manifest/elsewhere.js';
import type { Manifest } from '../manifest/schema.js';

/** One sentence each. `objects`: contents of the state files by name. docs/limits.md, "What is silently lost". */
export function inspectWarnings(
  manifest: Manifest,
  objects: ReadonlyMap<string, KfdObjects>,
): string[] {
  const elsewhere = isDetached(manifest) ? [contentsMissing(manifest).message] : [];
  return [...elsewhere, ...lossesOf(manifest, objects)];
}

function lossesOf({ processes }: Manifest, objects: ReadonlyMap<string, KfdObjects>): string[] {
  return processes.flatMap(({ ns_pid: pid, comm, state_file: name }) => {
    const queues = objects.get(name)?.queues ?? [];
    const compute = queues.filter(({ kind }) => kind === 'compute').length;
    if (compute === 0) return [];
    const of = `[${pid}] ${comm}, compute queues: ${compute}`;
    return [
      `${of}: a restore loses the trap handler of ROCr: device asserts are skipped, other GPU exceptions hang`,
    ];
  });
}
