/** `migrate`: moves a container of podman or containerd to another host. */

import { randomBytes } from 'node:crypto';
import { Argument, Command, Option } from 'commander';
import { KfdError } from '../errors.js';
import { SshConnection } from '../migrate/connection.js';
import { writeLastMove } from '../migrate/estimate.js';
import { maxRounds } from '../migrate/gpu-folders.js';
import { placesBelow } from '../migrate/places.js';
import type { Moving } from '../migrate/question/compare.js';
import { gpuMapOption, ignoreMismatchOption } from './check.js';
import type { CommandContext } from './context.js';
import { formatOption, json } from './format.js';
import { maxDowntimeOption, withEstimate } from './migrate-estimate.js';
import { selfProgram } from './migrate-hidden.js';
import { imageCommands, sendImage } from './migrate-image.js';
import { Play } from './migrate-play.js';
import { type Asked, askTarget, type MigrateOptions, movingOf } from './migrate-question.js';
import {
  answerAsJson,
  answerAsText,
  estimateAsText,
  lastMoveOf,
  moveAsJson,
  moveAsText,
  refusalOf,
} from './migrate-report.js';
import { continueMigration, type Move, moveContainer } from './migrate-run.js';
import { unfinishedMigration } from './migrate-unfinished.js';
import { assertHostRoot } from './rootless.js';

/** `self`: this program, for tests another one. */
export function migrateCommand(context: CommandContext, self = selfProgram()): Command {
  return new Command('migrate')
    .addArgument(new Argument('<container>', 'name or id of a running container'))
    .addArgument(new Argument('<host>', '[USER@]HOST for ssh, with kfd-checkpoint installed'))
    .option('--dry-run', 'ask the target, and stop nothing')
    .option('--with-image', 'send the container image where the target does not have it')
    .addOption(engineOption())
    .option('--namespace <name>', 'of containerd (default)')
    .addOption(maxDowntimeOption())
    .addOption(precopyOption())
    .addOption(leaseOption())
    .option('--store <dir>', 'folder of the target for what arrives, in place of memory')
    .addOption(gpuMapOption())
    .addOption(ignoreMismatchOption())
    .option('--quiet', 'print no progress')
    .addOption(formatOption('text', 'json'))
    .option('--root <dir>', 'read the system below this folder', '/')
    .action(async (container: string, host: string, given: MigrateOptions) => {
      const options = forEngine(given);
      await assertHostRoot('migrate', context);
      const how = { ...options, self };
      const unfinished = await unfinishedMigration(container, host, options);
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
      const last = lastMoveOf(move);
      // It has moved, whatever becomes of this note.
      if (last) await writeLastMove(last, placesBelow(options.root)).catch(() => undefined);
      context.out(options.format === 'json' ? json(moveAsJson(move)) : moveAsText(move));
    });
}

const precopyOption = () =>
  new Option(
    '--precopy <rounds>',
    'send GPU contents so often while it runs, then memory; what is written meanwhile follows (1)',
  ).argParser((text: string) => {
    if (/^\d{1,2}$/.test(text) && Number(text) <= maxRounds) return Number(text);
    throw new KfdError('E_USAGE', `--precopy ${text}: not a number from 0 to ${maxRounds}`);
  });

const engineOption = () =>
  new Option('--engine <engine>', 'what runs the container')
    .choices(['podman', 'containerd'])
    .default('podman');

/** The options with what holds for the engine. Throws E_USAGE for one that it has not. */
function forEngine(options: MigrateOptions): MigrateOptions {
  const { engine, namespace, precopy = 1 } = options;
  if (engine === 'containerd' || namespace === undefined) return { ...options, precopy };
  throw new KfdError('E_USAGE', '--namespace: only containerd has namespaces', {
    hint: 'add --engine containerd',
  });
}

const leaseOption = () =>
  new Option(
    '--lease <seconds>',
    'time that the target gets to start the container (120)',
  ).argParser((text: string) => {
    if (/^\d{1,5}$/.test(text) && Number(text) >= 5 && Number(text) <= 86_400) return Number(text);
    throw new KfdError('E_USAGE', `--lease ${text}: not a number of seconds from 5 to 86400`);
  });

type How = MigrateOptions & { readonly self: ReturnType<typeof selfProgram> };

/** Undefined: it was only asked. */
async function begin(
  container: string,
  host: string,
  how: How,
  context: CommandContext,
): Promise<Move | undefined> {
  const moving = await movingOf(container, how, context);
  if (how.dryRun === true) {
    await connected(host, context.signal, (connection) =>
      onlyAsk(moving, host, connection, how, context),
    );
    return undefined;
  }
  const who = { id: randomBytes(16).toString('hex'), container_id: moving.containerId, host };
  const { container: name } = moving.question;
  return Play.during({ ...who, container: name }, 'asking', how.root, context, (play) =>
    connected(host, play.signal, async (connection, keep) => {
      const { estimate } = await ask(play, moving, host, connection, how, context);
      const measured = { ...how, ...(estimate && { rate: estimate.rate }) };
      return moveContainer(play, moving, { host, connection, keep }, measured, context);
    }),
  );
}

/**
 * With a connection to the target, which `signal` ends, until `keep` is called: whoever calls it ends it in another
 * way. Throws what the signal says, and after `keep` what `work` throws.
 */
async function connected<T>(
  host: string,
  signal: AbortSignal,
  work: (connection: SshConnection, keep: () => void) => Promise<T>,
): Promise<T> {
  const connection = await SshConnection.open(host);
  const stop = () => void connection.close();
  let isKept = false;
  const keep = () => {
    isKept = true;
    signal.removeEventListener('abort', stop);
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    if (signal.aborted) stop();
    return await work(connection, keep);
  } catch (error) {
    const isReason = error instanceof KfdError && error.code === 'E_CANCELLED';
    if (isKept || !signal.aborted || isReason) throw error;
    const { reason } = signal as { reason: unknown };
    throw reason instanceof KfdError ? reason : new KfdError('E_CANCELLED', 'migrate: interrupted');
  } finally {
    keep();
    await connection.close();
  }
}

async function onlyAsk(
  moving: Moving,
  host: string,
  connection: SshConnection,
  how: How,
  context: CommandContext,
): Promise<void> {
  const answered = await askTarget(moving, connection, how);
  const asked = await withEstimate(answered, host, how, context.signal);
  const { container } = moving.question;
  const isJson = how.format === 'json';
  context.out(isJson ? json(answerAsJson(container, host, asked)) : answerAsText(host, asked));
  const refused = refusalOf(container, host, asked);
  if (refused !== undefined) throw refused;
}

/** Asks until there is an answer that holds, and returns it. Throws the reasons against it. */
async function ask(
  play: Play,
  moving: Moving,
  host: string,
  connection: SshConnection,
  how: How,
  context: CommandContext,
): Promise<Asked> {
  const { container, image } = moving.question;
  let asked = await askTarget(moving, connection, how);
  if (how.withImage === true && asked.facts.image_id === undefined) {
    const others = asked.answer.reasons.filter(({ code }) => code !== 'E_IMAGE_MISSING');
    if (others.length === 0) {
      play.phase = 'sending-image';
      if (how.quiet !== true) context.err(`${container}: sending ${image}\n`);
      await sendImage(image, host, play.signal, imageCommands(moving.question));
      play.phase = 'asking';
      asked = await askTarget(moving, connection, how);
    }
  }
  if (how.maxDowntime !== undefined && asked.answer.reasons.length === 0) {
    play.phase = 'measuring';
    asked = await withEstimate(asked, host, how, play.signal);
    const { estimate } = asked;
    if (estimate !== undefined && how.quiet !== true)
      context.err(`${container}: ${estimateAsText(estimate)}\n`);
  }
  for (const { message, hint } of asked.answer.warnings)
    context.err(`warning: ${message} (${hint})\n`);
  const refused = refusalOf(container, host, asked);
  if (refused !== undefined) throw refused;
  return asked;
}
