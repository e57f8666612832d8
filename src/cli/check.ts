/**
 * `kfd-checkpoint check`: can this host checkpoint and restore GPU containers, and if not, why not.
 * With a checkpoint as its argument: can this host restore this checkpoint.
 */

import { Argument, Command, Option } from 'commander';
import { asKfdError, KfdError, printable } from '../errors.js';
import { checkArchive } from './check-archive.js';
import { cdi } from './checks/cdi.js';
import { cgroup } from './checks/cgroup.js';
import { containerd } from './checks/containerd.js';
import { crio } from './checks/crio.js';
import { criu, precopy } from './checks/criu.js';
import { engines, enginesOf } from './checks/engines.js';
import {
  type Check,
  type CheckContext,
  type Engines,
  type Finding,
  fail,
} from './checks/finding.js';
import { addon, gpus, node } from './checks/gpu.js';
import { copies, criuConfiguration, folders, hook, packaged } from './checks/installation.js';
import { kernel } from './checks/kernel.js';
import { mendOf } from './checks/mend.js';
import { podman, runtimes } from './checks/programs.js';
import { sandboxed } from './checks/sandboxed.js';
import { contentsOption } from './contents-folders.js';
import type { CommandContext } from './context.js';
import { formatOption, json, table } from './format.js';
import { userFindings } from './rootless.js';

/** In the order of the output. */
function checksFor({ podman: usesPodman, containerd: usesContainerd }: Engines): readonly Check[] {
  const usesAny = usesPodman || usesContainerd;
  return [
    node,
    addon,
    gpus,
    cdi,
    kernel,
    criu,
    engines,
    ...(usesAny ? [runtimes] : []),
    ...(usesPodman ? [podman, precopy, criuConfiguration] : []),
    ...(usesContainerd ? [containerd] : []),
    crio,
    sandboxed,
    ...(usesAny ? [copies] : []),
    packaged,
    ...(usesPodman ? [hook] : []),
    cgroup,
    folders,
  ];
}

/** All findings about the host and the engines that are set up. One failing check never hides another. */
export async function findingsOf(host: Omit<CheckContext, 'engines' | 'mend'>): Promise<Finding[]> {
  const context = { ...host, engines: await enginesOf(host), mend: await mendOf(host.root) };
  const findings = checksFor(context.engines).map((check) =>
    check(context).catch((error) => [broken(check, error)]),
  );
  return (await Promise.all(findings)).flat();
}

function broken(check: Check, error: unknown): Finding {
  const known = asKfdError(error, check.name);
  return fail(check.name, known.message, known.hint ?? 'run "sudo kfd-checkpoint check"');
}

interface CheckOptions {
  readonly format: 'table' | 'json';
  readonly prefix: string;
  readonly root: string;
  readonly gpuMap?: string;
  readonly gpus?: string;
  readonly ignoreMismatch?: string;
  readonly contents?: readonly string[];
}

export const gpuMapOption = () =>
  new Option('--gpu-map <from=to,...>', 'which GPU of this host replaces which recorded GPU');

export const gpusOption = () =>
  new Option(
    '--gpus <name,...>',
    'GPUs of this host to choose from, also by CDI name: amd.com/gpu=2',
  );

export const ignoreMismatchOption = () =>
  new Option(
    '--ignore-mismatch <what,...>',
    'restore in spite of these differences to the source host: cpu, driver, firmware',
  );

export function checkCommand(context: CommandContext): Command {
  return new Command('check')
    .addArgument(
      new Argument('[checkpoint]', 'archive, podman bundle, image directory or checkpoint image'),
    )
    .addOption(formatOption('table', 'json'))
    .addOption(gpuMapOption())
    .addOption(gpusOption())
    .addOption(ignoreMismatchOption())
    .addOption(contentsOption())
    .option('--prefix <dir>', 'folder of the installation', context.prefix)
    .option('--root <dir>', 'read the system below this folder', '/')
    .action(async (checkpoint: string | undefined, options: CheckOptions) => {
      if (checkpoint !== undefined) return checkArchive(checkpoint, context, options);
      if (options.gpuMap !== undefined) {
        throw new KfdError('E_USAGE', '--gpu-map: needs a checkpoint');
      }
      if (options.gpus !== undefined) {
        throw new KfdError('E_USAGE', '--gpus: needs a checkpoint');
      }
      if (options.ignoreMismatch !== undefined) {
        throw new KfdError('E_USAGE', '--ignore-mismatch: needs a checkpoint');
      }
      if (options.contents !== undefined) {
        throw new KfdError('E_USAGE', '--contents: needs a checkpoint');
      }
      const { run, native } = context;
      const { root, prefix } = options;
      const nodeVersion = process.versions.node;
      const findings = [
        ...(await userFindings(context)),
        ...(await findingsOf({ root, prefix, run, native, nodeVersion })),
      ];
      const failed = findings.filter((finding) => finding.status === 'fail');
      context.out(
        options.format === 'json'
          ? json({ schema_version: 1, able: failed.length === 0, findings })
          : asTable(findings),
      );
      const [first] = failed;
      if (first === undefined) return;
      const more = failed.length === 1 ? '' : ` (and ${failed.length - 1} more)`;
      throw new KfdError('E_HOST', `${first.name}: ${first.message}${more}`, {
        ...(first.hint !== undefined && { hint: first.hint }),
      });
    });
}

function asTable(findings: readonly Finding[]): string {
  const rows = findings.map(({ name, status, message }) => [status, name, message]);
  const hints = findings
    .filter((finding) => finding.hint !== undefined)
    .map((finding) => `${finding.name}: ${printable(finding.hint ?? '')}\n`);
  const text = table(['STATUS', 'CHECK', 'FINDING'], rows);
  return hints.length === 0 ? text : `${text}\nTo fix:\n${hints.join('')}`;
}
