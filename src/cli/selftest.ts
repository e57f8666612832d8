/** `kfd-checkpoint selftest`: tries on this host's own GPU, stage by stage, whether checkpoints work there. */

import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { defaultConfig, defaultConfigPath, loadConfig } from '../config.js';
import { KfdError } from '../errors.js';
import { temporaryRoot } from '../os/temporary.js';
import { isOlder, parseVersion } from '../runtime/versions.js';
import { readFacts, secretsOf } from '../selftest/facts.js';
import { selectedGpus } from '../selftest/gpus.js';
import { makeReport, type Report, writeReport } from '../selftest/report.js';
import { runStages } from '../selftest/run.js';
import { selectedStages } from '../selftest/select.js';
import type { CommandContext } from './context.js';
import { formatOption, json } from './format.js';
import { programReleases, type SelftestOptions, stagesFor } from './selftest-stages.js';
import { reportText, stageLine } from './selftest-text.js';

/** MiB: enough for rates that mean something, little enough for any GPU that KFD supports. */
const usualMib = 1024;
const mostMib = 1 << 20;

export function selftestCommand(context: CommandContext): Command {
  return new Command('selftest')
    .option('--gpu <node,...>', 'use these GPUs alone, such as renderD128')
    .addOption(
      new Option('--size <MiB>', 'GPU contents to move on each GPU')
        .argParser(mebibytes)
        .default(usualMib),
    )
    .option('--report <file>', 'write the report, which identifies no host, to a file')
    .option('--stages <stage,...>', 'run these stages alone; host always runs')
    .option('--yes', 'use the GPU without asking')
    .option('--allow-others', 'run beside other users of the GPU')
    .option('--cpu-copies', 'let the CPU copy contents, too: slow')
    .addOption(formatOption('table', 'json'))
    .option('--prefix <dir>', 'folder of the installation', context.prefix)
    .option('--root <dir>', 'read the system below this folder', '/')
    .action((options: SelftestOptions) => selftest(options, context));
}

function mebibytes(word: string): number {
  const value = Number(word);
  if (/^\d{1,7}$/.test(word) && value >= 1 && value <= mostMib) return value;
  throw new InvalidArgumentError(`not a number of MiB from 1 to ${mostMib}`);
}

async function selftest(options: SelftestOptions, context: CommandContext): Promise<void> {
  const folder = await mkdtemp(join(temporaryRoot('/var/tmp'), 'kfd-checkpoint-selftest.'));
  let report: Report;
  try {
    report = await reportOf(options, folder, context);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  const text = json(report);
  if (options.report !== undefined) await writeReport(options.report, text);
  context.out(options.format === 'json' ? text : reportText(report));
  failOn(report, context);
}

async function reportOf(
  options: SelftestOptions,
  folder: string,
  context: CommandContext,
): Promise<Report> {
  const names = selectedStages(options.stages);
  const [facts, host] = await readFacts(options.root, versionIfAny(context));
  const gpus = selectedGpus(options.gpu, host, facts);
  const bench = {
    gpus,
    bytes: options.size * 2 ** 20,
    prefix: options.prefix,
    folder,
    exportsBuffers: exportsBuffers(facts.host.kfd_version),
    logFolder: await logFolderOf(options.root),
    run: context.run,
  };
  const stages = stagesFor(names, bench, facts, options, context);
  const mayUseGpu = mayUse(
    stages.some(({ usesGpu }) => usesGpu),
    gpus,
    options,
    context,
  );
  const results = await runStages(stages, {
    signal: context.signal,
    now: () => Math.round(performance.now() * 1000),
    mayUseGpu,
    onEnd: (result) => context.err(stageLine(result)),
  });
  return makeReport({
    settings: {
      size_mib: options.size,
      stages: names,
      gpus: gpus.map(({ ordinal }) => ordinal),
      cpu_copies: options.cpuCopies === true,
    },
    programs: await programReleases(context.run),
    facts,
    stages: results,
    node: process.versions.node,
    now: new Date(),
    secrets: secretsOf(host),
  });
}

/** Throws E_USAGE at once when nobody can be asked. */
function mayUse(
  isNeeded: boolean,
  gpus: readonly { readonly minor: number }[],
  { yes }: SelftestOptions,
  { ask }: CommandContext,
): () => Promise<boolean> {
  if (yes === true || !isNeeded) return async () => true;
  if (ask === undefined) {
    throw new KfdError('E_USAGE', 'selftest: nobody to ask whether the GPU may be used', {
      hint: 'add --yes, or run it on a terminal',
    });
  }
  const names = gpus.map(({ minor }) => `renderD${minor}`).join(', ');
  return () => ask(`The next stages use ${names}. Work of others on it may be lost. Continue?`);
}

/** `version`: "major.minor" of KFD. AMDKFD_IOC_EXPORT_DMABUF came with 1.12 (uapi/linux/kfd_ioctl.h@6.12.118). */
function exportsBuffers(version = ''): boolean {
  const known = parseVersion(version);
  return known !== undefined && !isOlder(known, '1.12');
}

/** A configuration that cannot be read is a finding of stage host. */
async function logFolderOf(root: string): Promise<string> {
  const { log_dir } = await loadConfig(join(root, defaultConfigPath)).catch(() => defaultConfig());
  return log_dir;
}

function versionIfAny({ native }: CommandContext): string | undefined {
  try {
    return native.kfdVersion();
  } catch {
    return undefined; // a finding of stage host
  }
}

function failOn({ stages }: Report, { signal }: CommandContext): void {
  const failed = stages.find(({ status }) => status === 'failed');
  if (failed !== undefined) {
    const { name, code = 'E_INTERNAL', reason, hint } = failed;
    throw new KfdError(code, `stage ${name}: ${reason}`, { ...(hint !== undefined && { hint }) });
  }
  const left = stages.find(({ status }) => status === 'not_run');
  if (left === undefined) return;
  const hint = signal.aborted ? 'run the command again' : 'run it again, and answer yes';
  throw new KfdError('E_CANCELLED', `stage ${left.name}: not run: ${left.reason}`, { hint });
}
