/** What the help of a verb says beside its arguments and options. The man pages are made from the same. */

import type { Command } from 'commander';
import { KfdError } from '../errors.js';
import { type Example, type VerbText, verbTexts } from './verb-texts.js';

function textOf(verb: Command): VerbText {
  const text = verbTexts.get(verb.name());
  if (text === undefined) throw new KfdError('E_INTERNAL', `${verb.name()}: has no help`);
  return text;
}

/** Adds the texts of the verb: the summary is for lists of verbs. */
export function explained(verb: Command): Command {
  const { summary, details, examples } = textOf(verb);
  const lines = examples.map(({ command, does }) => `  ${command}\n      ${does}\n`);
  return verb
    .summary(summary)
    .description(`${summary}\n\n${details}`)
    .addHelpText('after', `\nExamples:\n${lines.join('').trimEnd()}`);
}

export const detailsOf = (verb: Command): string => textOf(verb).details;
export const examplesOf = (verb: Command): readonly Example[] => textOf(verb).examples;
