/** The CPU: a restored program goes on with the instructions that it chose at its start. */

import { join } from 'node:path';
import type { Manifest } from '../manifest/schema.js';
import { readHeadIfAny } from '../os/files.js';
import { userFlags } from './cpu-flags.js';
import type { Mismatch } from './mismatch.js';

/** As the manifest records it. */
export type CpuRecord = NonNullable<Manifest['host']['cpu']>;

export interface HostCpu {
  /** "model name" of /proc/cpuinfo, or "unknown CPU". */
  readonly model: string;
  /** All flags of /proc/cpuinfo. */
  readonly flags: ReadonlySet<string>;
  /** Bytes that XSAVE writes at most; undefined when it was not read. */
  readonly xsaveBytes: number | undefined;
}

/** The entry of one CPU has less than 2 KiB; Linux gives flags to all CPUs of a host alike. */
const entryBytes = 16 << 10;

/** The first CPU below `root`. undefined where /proc/cpuinfo has no `flags`: on other machines than x86. */
export async function readCpu(
  root: string,
  xsaveBytes: number | undefined,
): Promise<HostCpu | undefined> {
  const text = (await readHeadIfAny(join(root, 'proc/cpuinfo'), entryBytes)) ?? '';
  const value = (name: string) => new RegExp(`^${name}\\s*:[ \\t]*(.*)$`, 'm').exec(text)?.[1];
  const flags = value('flags');
  if (flags === undefined) return undefined;
  const model = value('model name')?.trim().slice(0, 128) || 'unknown CPU';
  return { model, flags: new Set(flags.split(/\s+/)), xsaveBytes };
}

/** What a checkpoint records: the flags that user space may depend on, in the kernel's order. */
export function cpuRecord({ model, flags, xsaveBytes }: HostCpu): CpuRecord {
  return {
    model,
    flags: [...flags].filter((flag) => userFlags.has(flag)),
    ...(xsaveBytes !== undefined && { xsave_bytes: xsaveBytes }),
  };
}

/**
 * What a restored program would miss. Nothing is compared with an unknown side. The size of saved registers must be
 * equal, as CRIU wants it with --cpu-cap=fpu (criu/arch/x86/cpu.c:cpu_validate_features): programs have allocated
 * buffers and signal stacks of that size, so a larger one overruns them.
 */
export function cpuMismatches(
  recorded: CpuRecord | undefined,
  present: HostCpu | undefined,
): Mismatch[] {
  if (recorded === undefined || present === undefined) return [];
  const missing = recorded.flags.filter((flag) => !present.flags.has(flag));
  const mismatches: Mismatch[] = [];
  if (missing.length > 0) {
    mismatches.push({
      code: 'E_CPU_MISMATCH',
      message: `cpu: ${present.model} here lacks ${missing.join(', ')}; recorded on ${recorded.model}`,
      hint: 'restore on a CPU that has them, or decide with ignore_mismatch: programs may end with SIGILL (132)',
      difference: 'cpu',
    });
  }
  const [was, is] = [recorded.xsave_bytes, present.xsaveBytes];
  if (was !== undefined && is !== undefined && was !== is) {
    mismatches.push({
      code: 'E_CPU_MISMATCH',
      message: `cpu: saved registers (XSAVE) took ${was} bytes on ${recorded.model}, take ${is} here`,
      hint: 'restore on a CPU of the same generation, or decide with ignore_mismatch: programs may crash',
      difference: 'cpu',
    });
  }
  return mismatches;
}
