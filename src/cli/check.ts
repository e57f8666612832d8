/** `kfd-checkpoint check`: can this host checkpoint and restore GPU containers, and if not, why. */

import { Command, Option } from 'commander';
import { asKfdError, KfdError } from '../errors.js';
import { criu, podman, runtimes } from './checks/engines.js';
import { type Check, type CheckContext, type Finding, fail } from './checks/finding.js';
import { addon, cgroup, gpus, node } from './checks/gpu.js';
import { criuConfiguration, folders, hook } from './checks/installation.js';
import { json, printable, table } from './format.js';
import type { Surroundings } from './surroundings.js';

const checks: readonly Check[] = [
  node,
  addon,
  gpus,
  criu,
  runtimes,
  podman,
  criuConfiguration,
  hook,
  cgroup,
  folders,
];

/** All findings, in a fixed order. One failing check never hides another. */
export async function findingsOf(context: CheckContext): Promise<Finding[]> {
  const findings = checks.map((check) => check(context).catch((error) => [broken(check, error)]));
  return (await Promise.all(findings)).flat();
}

function broken(check: Check, error: unknown): Finding {
  const known = asKfdError(error, check.name);
  return fail(check.name, known.message, known.hint ?? 'run as root');
}

export function checkCommand(surroundings: Surroundings): Command {
  return new Command('check')
    .description('check this host and say how to mend what is missing')
    .addOption(
      new Option('--format <format>', 'how to print').choices(['table', 'json']).default('table'),
    )
    .option('--prefix <dir>', 'folder of the installation', surroundings.prefix)
    .option('--root <dir>', 'look at the system below this folder', '/')
    .action(async (options: { format: 'table' | 'json'; prefix: string; root: string }) => {
      const findings = await findingsOf({
        root: options.root,
        prefix: options.prefix,
        run: surroundings.run,
        native: surroundings.native,
        nodeVersion: process.versions.node,
      });
      const failed = findings.filter((finding) => finding.status === 'fail');
      surroundings.out(
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
  const mends = findings
    .filter((finding) => finding.hint !== undefined)
    .map((finding) => `${finding.name}: ${printable(finding.hint ?? '')}\n`);
  const text = table(['STATUS', 'CHECK', 'FINDING'], rows);
  return mends.length === 0 ? text : `${text}\nTo mend:\n${mends.join('')}`;
}
