/** What can be typed after `kfd-checkpoint`, from what `--help` is made of. */

import type { Argument, Command, Option } from 'commander';
import { differences } from '../../gpu/ignorable.js';
import { stageNames } from '../../selftest/stage.js';

/** What a value can be. Shells find the last five themselves. */
export type Values =
  | { readonly kind: 'words'; readonly words: readonly string[] }
  | { readonly kind: 'text' }
  | { readonly kind: 'files' | 'folders' | 'sessions' | 'containers' | 'archives' };

export interface CompletedOption {
  /** With their dashes. */
  readonly names: readonly string[];
  readonly description: string;
  /** Undefined: it has none. */
  readonly values: Values | undefined;
  readonly repeats: boolean;
}

export interface CompletedVerb {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly CompletedOption[];
  /** In their order. The last one stands for all further ones when the verb takes options of podman. */
  readonly values: readonly Values[];
  /** Whether podman's options follow the first argument, and ours no more. */
  readonly passesOn: boolean;
}

export interface Completed {
  readonly options: readonly CompletedOption[];
  readonly verbs: readonly CompletedVerb[];
}

/** Placeholders in the help, and what takes their place. */
const placeholders: Readonly<Record<string, Values>> = {
  archive: { kind: 'files' },
  'archive|container|image': { kind: 'archives' },
  checkpoint: { kind: 'files' },
  container: { kind: 'containers' },
  dir: { kind: 'folders' },
  file: { kind: 'files' },
  flags: { kind: 'files' },
  'from=to,...': { kind: 'text' },
  host: { kind: 'text' },
  image: { kind: 'files' },
  name: { kind: 'text' },
  MiB: { kind: 'text' },
  'name,...': { kind: 'text' },
  'node,...': { kind: 'text' },
  rounds: { kind: 'text' },
  seconds: { kind: 'text' },
  session: { kind: 'sessions' },
  release: { kind: 'text' },
  'stage,...': { kind: 'words', words: stageNames },
  text: { kind: 'text' },
  'what,...': { kind: 'words', words: differences },
};

/** Throws for a placeholder that is not known here. */
function valuesFor(placeholder: string, choices: readonly string[] | undefined): Values {
  if (choices !== undefined) return { kind: 'words', words: choices };
  const known = placeholders[placeholder];
  if (known === undefined) throw new Error(`completion: what is ${placeholder}?`);
  return known;
}

function optionOf({
  flags,
  short,
  long,
  description,
  argChoices,
  parseArg,
}: Option): CompletedOption {
  const placeholder = /[<[](.+)[>\]]$/.exec(flags)?.[1];
  return {
    names: [short, long].filter((name) => name !== undefined && name !== null),
    description,
    values: placeholder === undefined ? undefined : valuesFor(placeholder, argChoices),
    repeats: parseArg !== undefined && argChoices === undefined,
  };
}

export function completedProgram(program: Command): Completed {
  const help = program.createHelp();
  const verbs = program.commands.map(
    (verb): CompletedVerb => ({
      name: verb.name(),
      summary: verb.summary(),
      options: help.visibleOptions(verb).map(optionOf),
      values: verb.registeredArguments.map((argument: Argument) =>
        valuesFor(argument.name(), argument.argChoices),
      ),
      passesOn: verb.registeredArguments.some(({ variadic }) => variadic),
    }),
  );
  const words = verbs.map(({ name }) => name);
  const helpVerb = help.visibleCommands(program).find((verb) => verb.name() === 'help');
  if (helpVerb === undefined) throw new Error('completion: there is no help');
  const ofHelp = {
    name: helpVerb.name(),
    summary: helpVerb.description(),
    options: [],
    values: [{ kind: 'words', words }],
    passesOn: false,
  } as const;
  return { options: help.visibleOptions(program).map(optionOf), verbs: [...verbs, ofHelp] };
}
