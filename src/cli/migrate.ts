/** `migrate`: moves a podman container to another host. */

import { Argument, Command } from 'commander';
import { KfdError } from '../errors.js';
import { SshConnection } from '../migrate/connection.js';
import type { Moving } from '../migrate/question/compare.js';
import { gpuMapOption, ignoreMismatchOption } from './check.js';
import type { CommandContext } from './context.js';
import { formatOption, json } from './format.js';
import { selfProgram } from './migrate-hidden.js';
import { sendImage } from './migrate-image.js';
import { askTarget, type MigrateOptions, movingOf } from './migrate-question.js';
import { answerAsJson, answerAsText, moveAsJson, moveAsText, refusalOf } from './migrate-report.js';
import { continueMigration, type Move, moveContainer } from './migrate-run.js';
import { unfinishedMigration } from './migrate-unfinished.js';
import { assertHostRoot } from './rootless.js';

/** `self`: this program, for tests another one. */
export function migrateCommand(context: CommandContext, self = selfProgram()): Command {
  return new Command('migrate')
    .addArgument(new Argument('<container>', 'name or id of a running podman container'))
    .addArgument(new Argument('<host>', '[USER@]HOST for ssh, with kfd-checkpoint installed'))
    .option('--dry-run', 'ask the target, and stop nothing')
    .option('--with-image', 'send the container image where the target does not have it')
    .option('--store <dir>', 'folder of the target for what arrives')
    .addOption(gpuMapOption())
    .addOption(ignoreMismatchOption())
    .option('--quiet', 'print no progress')
    .addOption(formatOption('text', 'json'))
    .option('--root <dir>', 'read the system below this folder', '/')
    .action(async (container: string, host: string, options: MigrateOptions) => {
      await assertHostRoot('migrate', context);
      const how = { ...options, self };
      const unfinished = await unfinishedMigration(container, host, options.root);
      if (unfinished !== undefined && options.dryRun === true) {
        throw new KfdError('E_USAGE', `${container}: a migration to ${host} has not ended`, {
          hint: 'run the command without --dry-run: it goes on',
        });
      }
      const move =
        unfinished === undefined
          ? await begin(container, host, how, context)
          : await continueMigration(unfinished, how, context);
      if (move === undefined) return;
      context.out(options.format === 'json' ? json(moveAsJson(move)) : moveAsText(move));
    });
}

type How = MigrateOptions & { readonly self: ReturnType<typeof selfProgram> };

/** Undefined: it was only asked. */
async function begin(
  container: string,
  host: string,
  how: How,
  context: CommandContext,
): Promise<Move | undefined> {
  const moving = await movingOf(container, how, context);
  const connection = await SshConnection.open(host);
  const stop = () => void connection.close();
  context.signal.addEventListener('abort', stop, { once: true });
  try {
    await ask(moving, host, connection, how, context);
    if (how.dryRun === true) return undefined;
    context.signal.removeEventListener('abort', stop);
    return await moveContainer(moving, host, connection, how, context);
  } catch (error) {
    if (context.signal.aborted && !(error instanceof KfdError && error.code === 'E_CANCELLED'))
      throw new KfdError('E_CANCELLED', 'migrate: interrupted');
    throw error;
  } finally {
    context.signal.removeEventListener('abort', stop);
    await connection.close();
  }
}

/** Asks until there is an answer that holds. Throws the reasons against it. */
async function ask(
  moving: Moving,
  host: string,
  connection: SshConnection,
  how: How,
  context: CommandContext,
): Promise<void> {
  const { container } = moving.question;
  let asked = await askTarget(moving, connection, how);
  if (how.withImage === true && asked.facts.image_id === undefined && how.dryRun !== true) {
    const others = asked.answer.reasons.filter(({ code }) => code !== 'E_IMAGE_MISSING');
    if (others.length === 0) {
      if (how.quiet !== true) context.err(`${container}: sending ${moving.question.image}\n`);
      await sendImage(moving.question.image, host, context.signal);
      asked = await askTarget(moving, connection, how);
    }
  }
  if (how.dryRun === true) {
    const isJson = how.format === 'json';
    context.out(isJson ? json(answerAsJson(container, host, asked)) : answerAsText(host, asked));
  } else {
    for (const { message, hint } of asked.answer.warnings)
      context.err(`warning: ${message} (${hint})\n`);
  }
  const refused = refusalOf(container, host, asked);
  if (refused !== undefined) throw refused;
}
