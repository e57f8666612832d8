/** `kfd-checkpoint verify`: compares all GPU state with its checksums and with the manifest. */

import { Command } from 'commander';
import { unsealed } from '../archive/completeness.js';
import { type VerifyReport, verifyCheckpoint } from '../archive/verify.js';
import { KfdError, printable } from '../errors.js';
import { contentsMissing } from '../gpu/compare.js';
import { isDetached } from '../manifest/elsewhere.js';
import type { CommandContext } from './context.js';
import { formatOption, json, size, table } from './format.js';
import { type NamedCheckpoint, withCheckpoint } from './image-reference.js';
import { checkpointArgument } from './inspect.js';
import { progressOf } from './progress.js';

interface VerifyOptions {
  readonly format: 'table' | 'json';
  readonly quiet?: boolean;
  readonly contents?: string;
}

export function verifyCommand(context: CommandContext): Command {
  return new Command('verify')
    .addArgument(checkpointArgument())
    .addOption(formatOption('table', 'json'))
    .option('--contents <dir>', 'folder of its GPU contents, where they are detached')
    .option('--quiet', 'print no progress')
    .action((name: string, options: VerifyOptions) =>
      withCheckpoint(name, context, (found) => verify(found, name, options, context)),
    );
}

/** `name`: what the user has called it. */
async function verify(
  { path, layers, containerd }: NamedCheckpoint,
  name: string,
  { format, quiet, contents }: VerifyOptions,
  context: CommandContext,
): Promise<void> {
  const { signal, native } = context;
  const progress = progressOf(context);
  const report = await verifyCheckpoint(path, {
    zstdDecoder: native.zstdDecoder,
    verifier: native.verifier(),
    layers,
    containerd: containerd?.documents,
    ...(contents !== undefined && { contents: [contents] }),
    signal,
    ...(quiet !== true && { onProgress: progress.update }),
  }).finally(progress.end);
  context.out(format === 'json' ? json(asJson(name, report)) : asTable(report));
  failOnProblems(name, report);
}

function asJson(path: string, { contents, files, problems }: VerifyReport) {
  return {
    schema_version: 1,
    path,
    sound: allProblems({ contents, files, problems }).length === 0,
    sealed: contents.manifest !== undefined,
    files,
    problems,
  };
}

function asTable(report: VerifyReport): string {
  if (report.files.length === 0 && report.problems.length === 0) return 'no GPU state\n';
  const rows = report.files.map((file) => [
    file.name,
    size(file.size),
    file.frames === undefined ? '-' : `${file.frames}`,
    file.references === undefined ? '-' : `${file.references}`,
    file.siblings === undefined ? '-' : `${file.siblings}`,
    file.problems.length === 0 ? 'ok' : 'fail',
  ]);
  const problems = allProblems(report).map((problem) => `${printable(problem)}\n`);
  return (
    table(['FILE', 'SIZE', 'FRAMES', 'IN PARENT', 'IN OTHER FILES', 'STATUS'], rows) +
    problems.join('')
  );
}

function allProblems({ files, problems }: VerifyReport): string[] {
  return [
    ...problems,
    ...files.flatMap((file) => file.problems.map((problem) => `${file.name}: ${problem}`)),
  ];
}

/**
 * Throws E_IMAGE_CORRUPT or E_IMAGE_UNSEALED when the report has problems, E_IMAGE_MISSING without the folder of
 * detached contents.
 */
export function failOnProblems(path: string, report: VerifyReport): void {
  assertContents(path, report);
  const problems = allProblems(report);
  if (problems.length === 0) return;
  const { manifest, imageFiles } = report.contents;
  if (manifest === undefined && imageFiles.size > 0) throw unsealed(path);
  const more = problems.length === 1 ? '' : ` (and ${problems.length - 1} more)`;
  throw new KfdError('E_IMAGE_CORRUPT', `${path}: ${problems[0]}${more}`, {
    hint: 'use another copy of the archive, or take another checkpoint',
    details: { problems },
  });
}

function assertContents(path: string, { contents }: VerifyReport): void {
  const { manifest, contentsFolder } = contents;
  if (manifest === undefined || !isDetached(manifest) || contentsFolder !== undefined) return;
  const { code, message } = contentsMissing(manifest);
  throw new KfdError(code, `${path}: ${message}`, { hint: 'name that folder with --contents' });
}
