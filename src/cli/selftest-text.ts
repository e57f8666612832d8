/** The report of the self-test for people. */

import { printable } from '../errors.js';
import type { Report } from '../selftest/report.js';
import type { StageResult, Step } from '../selftest/stage.js';
import { duration, rate, size, table } from './format.js';

/** One line, when a stage has ended. */
export function stageLine({ name, status, us, reason }: StageResult): string {
  const why = reason === undefined ? '' : `: ${printable(reason)}`;
  return `${name}: ${status.replace('_', ' ')}, ${duration(us)}${why}\n`;
}

/** A table of stages, each with its steps below it; then what to do about a failure. */
export function reportText(report: Report): string {
  const rows = report.stages.flatMap((stage) => [
    [word(stage), stage.name, stage.us === 0 ? '' : duration(stage.us), '', stage.reason ?? ''],
    ...stage.steps.map(stepRow),
  ]);
  const text = table(['STATUS', 'STAGE', 'TIME', 'RATE', 'RESULT'], rows);
  return `${gpusText(report)}\n${text}${verdict(report)}`;
}

function gpusText({ gpus, host }: Report): string {
  const rows = gpus.map((gpu) => [
    String(gpu.ordinal),
    gpu.gfx,
    size(gpu.vram_bytes),
    String(gpu.mec_firmware ?? '-'),
    String(gpu.sdma_firmware ?? '-'),
    host.kernel_release,
    host.driver.version ?? "the kernel's own",
  ]);
  return table(['GPU', 'MODEL', 'VRAM', 'MEC', 'SDMA', 'KERNEL', 'DRIVER'], rows);
}

function word({ status }: StageResult): string {
  return status.replace('_', ' ');
}

function stepRow({ name, us, bytes, note }: Step): string[] {
  const moved = us === undefined || bytes === undefined || us === 0 ? '' : rate((bytes / us) * 1e6);
  return ['', `  ${name}`, us === undefined ? '' : duration(us), moved, note ?? ''];
}

function verdict({ passed, stages }: Report): string {
  const failed = stages.find(({ status }) => status === 'failed');
  if (failed !== undefined) {
    const logs = failed.logs.map(({ name }) => name).join(', ');
    const kept = logs === '' ? '' : `\nThe report has: ${logs}`;
    return `\nFailed: ${failed.name}\nTo fix: ${printable(failed.hint ?? '')}${kept}\n`;
  }
  return passed ? '\nPassed\n' : '\nNot finished\n';
}
