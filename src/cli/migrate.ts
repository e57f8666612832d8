/** `migrate`: moves a container to another host. So far it asks the target only, with --dry-run. */

import { Argument, Command } from 'commander';
import { KfdError } from '../errors.js';
import { gpuMapOption, ignoreMismatchOption } from './check.js';
import { pairRow } from './check-archive.js';
import type { CommandContext } from './context.js';
import { formatOption, json, size, table } from './format.js';
import { type Asked, askTarget, type QuestionOptions } from './migrate-question.js';

interface MigrateOptions extends QuestionOptions {
  readonly dryRun?: boolean;
  readonly format: 'text' | 'json';
}

/** The verb. The program does not have it before it can move something. */
export function migrateCommand(context: CommandContext, name: string): Command {
  return new Command(name)
    .addArgument(new Argument('<container>', 'name or id of a running podman container'))
    .addArgument(new Argument('<host>', '[USER@]HOST for ssh, with kfd-checkpoint installed'))
    .option('--dry-run', 'ask the target, and stop nothing')
    .addOption(gpuMapOption())
    .addOption(ignoreMismatchOption())
    .addOption(formatOption('text', 'json'))
    .option('--root <dir>', 'read the system below this folder', '/')
    .action(async (container: string, host: string, options: MigrateOptions) => {
      if (options.dryRun !== true) {
        throw new KfdError('E_USAGE', 'migrate: needs --dry-run', {
          hint: 'it can only ask the target so far',
        });
      }
      const asked = await askTarget(container, host, options, context);
      context.out(
        options.format === 'json' ? json(asJson(container, host, asked)) : asText(host, asked),
      );
      const refused = refusal(container, host, asked);
      if (refused !== undefined) throw refused;
    });
}

/** One error for all reasons, with the code of the first one. */
function refusal(container: string, host: string, { answer }: Asked): KfdError | undefined {
  const { reasons } = answer;
  const [first] = reasons;
  if (first === undefined) return undefined;
  const more = reasons.length === 1 ? '' : ` (and ${reasons.length - 1} more)`;
  const message = `${container}: would not move to ${host}: ${first.message}${more}`;
  return new KfdError(first.code, message, { hint: first.hint, details: { reasons } });
}

/** Within `schema_version` 1 members are only added. */
function asJson(container: string, host: string, { moving, facts, answer }: Asked) {
  const { reasons, warnings, ignored, placement } = answer;
  return {
    schema_version: 1,
    container,
    host,
    able: reasons.length === 0,
    memory_bytes: moving.memoryBytes,
    content_bytes: moving.contentBytes,
    target: {
      hostname: facts.host.hostname,
      kernel_release: facts.host.kernel_release,
      release: facts.release,
      tools: facts.tools,
      memory_free_bytes: facts.memory_free_bytes,
      store: facts.store,
    },
    gpus: placement.pairs.map(({ recorded, present }) => ({
      here: recorded,
      there: { ...present.record, vram_free_bytes: present.vramFreeBytes },
    })),
    moves: placement.moves,
    ignored,
    warnings,
    reasons,
  };
}

function asText(host: string, { moving, answer }: Asked): string {
  const { reasons, warnings, ignored, placement } = answer;
  const parts: string[] = [];
  const add = (heads: readonly string[], rows: readonly (readonly string[])[]) => {
    if (rows.length > 0) parts.push(table(heads, rows));
  };
  const heads = ['GPU', 'MODEL', 'IS', 'BECOMES', 'LOCATION THERE', 'FREE VRAM'];
  add(heads, placement.pairs.map(pairRow));
  add(
    ['IGNORED', 'DIFFERENCE'],
    ignored.map(({ difference, message }) => [difference ?? '', message]),
  );
  add(
    ['WARNING', 'NEXT STEP'],
    warnings.map(({ message, hint }) => [message, hint]),
  );
  add(
    ['REASON', `WHY ${host} CANNOT TAKE IT`, 'NEXT STEP'],
    reasons.map(({ code, message, hint }) => [code, message, hint]),
  );
  if (reasons.length === 0) {
    const { memoryBytes, contentBytes } = moving;
    const amount = `${size(memoryBytes)} of memory, ${size(contentBytes)} of VRAM`;
    parts.push(`${moving.question.container} would move to ${host}: ${amount}\n`);
  }
  return parts.join('\n');
}
