/** The stages of the self-test with what they take from outside. */

import type { Run } from '../os/exec.js';
import { versionOf } from '../runtime/versions.js';
import type { Bench } from '../selftest/bench.js';
import type { Facts } from '../selftest/facts.js';
import type { Stage, StageName } from '../selftest/stage.js';
import { copyStage } from '../selftest/stages/copy.js';
import { hostStage } from '../selftest/stages/host.js';
import { pauseStage } from '../selftest/stages/pause.js';
import { queuesStage } from '../selftest/stages/queues.js';
import { findingsOf } from './check.js';
import type { CommandContext } from './context.js';

export interface SelftestOptions {
  readonly gpu?: string;
  readonly size: number;
  readonly report?: string;
  readonly stages?: string;
  readonly yes?: boolean;
  readonly allowOthers?: boolean;
  readonly cpuCopies?: boolean;
  readonly format: 'table' | 'json';
  readonly prefix: string;
  readonly root: string;
}

/** The named stages, in their order. */
export function stagesFor(
  names: readonly StageName[],
  bench: Bench,
  facts: Facts,
  { root, allowOthers, cpuCopies }: SelftestOptions,
  { run, native }: CommandContext,
): Stage[] {
  const { prefix } = bench;
  const findings = () =>
    findingsOf({ root, prefix, run, native, nodeVersion: process.versions.node });
  const all: Stage[] = [
    hostStage({ bench, facts, root, findings, allowOthers: allowOthers === true }),
    copyStage({ bench, tryCopies: native.tryCopies, byCpu: cpuCopies === true }),
    queuesStage(bench),
    pauseStage({ bench, tryPauses: native.tryPauses }),
  ];
  return all.filter(({ name }) => names.includes(name));
}

/** Releases of the programs that take part in a checkpoint; those that are not there are left out. */
export async function programReleases(run: Run): Promise<Record<string, string>> {
  const releases: Record<string, string> = {};
  for (const name of ['criu', 'podman', 'crun', 'runc', 'containerd']) {
    const version = await versionOf(run, name);
    if (version !== undefined) releases[name] = version.text;
  }
  return releases;
}
