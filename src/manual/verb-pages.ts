/** Pages of the program and of its verbs, from what `--help` is made of. */

import type { Argument, Command, Help, Option } from 'commander';
import { detailsOf, examplesOf } from '../cli/explained.js';
import {
  bold,
  type Edition,
  escaped,
  heading,
  italic,
  line,
  page,
  paragraph,
  tagged,
  verbatim,
} from './roff.js';

/** The page of a verb has this name, as in `man kfd-checkpoint-check`. */
export const pageOf = (verb: Command) => `kfd-checkpoint-${verb.name()}`;

/** A page with its section, such as "kfd-checkpoint(8)". */
export type Reference = `${string}(${5 | 8})`;

export function seeAlso(...names: readonly Reference[]): string {
  const shown = names.map((name) =>
    name.replace(/^(.*)(\(\d\))$/, (_, title, section) => {
      return bold(escaped(title)) + section;
    }),
  );
  return heading('See also') + line(shown.join(', '));
}

/** Verbs that --help lists, without its own. */
export const verbsOf = (program: Command) =>
  program.commands.filter((command) => command.name() !== 'help');

export function verbPage(program: Command, verb: Command, edition: Edition): string {
  const help = program.createHelp();
  const title = { name: pageOf(verb), section: 8, summary: verb.summary() } as const;
  const examples = examplesOf(verb).map(
    ({ command, does }) => paragraph(`${escaped(does)}:`) + verbatim(command),
  );
  const parts = [
    heading('Synopsis'),
    line(synopsis(program, verb, help)),
    heading('Description'),
    line(escaped(detailsOf(verb))),
    ...argumentsOf(verb, help),
    heading('Options'),
    ...optionsOf(verb, help),
    heading('Examples'),
    ...examples,
    heading('Exit status'),
    line(`0 is success. ${bold('kfd\\-checkpoint')}(8) explains the others.`),
    seeAlso('kfd-checkpoint(8)', 'kfd-checkpoint-config(5)'),
  ];
  return page(title, edition, parts.join(''));
}

export interface ProgramSections {
  /** Sections in roff, with the heading that each one gets. */
  readonly [heading: string]: string;
}

/** The page of the program. `sections` come after the options. */
export function programPage(program: Command, sections: ProgramSections, edition: Edition): string {
  const help = program.createHelp();
  const summary = program.description();
  const verbs = verbsOf(program);
  const parts = [
    heading('Synopsis'),
    line(
      `${bold('kfd\\-checkpoint')} ${italic('verb')} [${italic('options')}] [${italic('arguments')}]`,
    ),
    heading('Verbs'),
    ...verbs.map((verb) => tagged(`${bold(escaped(pageOf(verb)))}(8)`, escaped(verb.summary()))),
    heading('Options'),
    ...optionsOf(program, help),
    ...Object.entries(sections).map(([title, roff]) => heading(title) + roff),
    seeAlso(
      ...verbs.map((verb) => `${pageOf(verb)}(8)` as const),
      'kfd-checkpoint-config(5)',
      'kfd-checkpoint-image(5)',
      'containerd-shim-kfd-v2(8)',
    ),
  ];
  const title = { name: program.name(), section: 8, summary } as const;
  return page(title, edition, parts.join(''));
}

/** Commander's usage: the program and the verb are bold, placeholders underlined. */
function synopsis(program: Command, verb: Command, help: Help): string {
  const words = `${program.name()} ${verb.name()}`;
  const rest = help.commandUsage(verb).replace(words, '').trim();
  const shown = escaped(rest).replace(/[a-z.]+(?:\\-[a-z]+)*/g, (name) => italic(name));
  return `${bold(escaped(words))} ${shown}`;
}

function argumentsOf(verb: Command, help: Help): string[] {
  const shown = help.visibleArguments(verb);
  if (shown.length === 0) return [];
  return [
    heading('Arguments'),
    ...shown.map((argument: Argument) =>
      tagged(
        italic(escaped(help.argumentTerm(argument))),
        escaped(help.argumentDescription(argument)),
      ),
    ),
  ];
}

function optionsOf(command: Command, help: Help): string[] {
  return help
    .visibleOptions(command)
    .map((option: Option) =>
      tagged(bold(escaped(help.optionTerm(option))), escaped(help.optionDescription(option))),
    );
}
