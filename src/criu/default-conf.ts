/**
 * Our lines in `/etc/criu/default.conf`, as one marked block at its top. All other bytes of the file stay. Texts are
 * Latin-1 strings, so that any byte survives.
 */

import { KfdError } from '../errors.js';
import { libdir } from './state-folder.js';

export const defaultConfPath = '/etc/criu/default.conf';

const begin = '# BEGIN kfd-checkpoint (kept by "kfd-checkpoint configure"; do not edit)\n';
const end = '# END kfd-checkpoint\n';
const ourBlock = `${begin}libdir ${libdir}\n${end}`;

/**
 * The text with our block, new or renewed. Throws E_CONFIG when another line sets our option, or when the markers are
 * damaged.
 */
export function withBlock(text: string): string {
  const { before, after } = aroundBlock(text);
  const foreign = foreignLines(before + after);
  if (foreign.length > 0) {
    throw new KfdError('E_CONFIG', `${defaultConfPath}: already set: ${foreign.join('; ')}`, {
      hint: `remove these lines if nothing else needs them, then run "kfd-checkpoint configure" again`,
      details: { lines: foreign },
    });
  }
  return `${before}${ourBlock}${after}`;
}

/** The text without our block; unchanged when there is none. Throws E_CONFIG on damaged markers. */
export function withoutBlock(text: string): string {
  const { before, after } = aroundBlock(text);
  return before + after;
}

/** Whether `configure` has written to this text, and has not undone it. */
export function hasOurMarks(text: string): boolean {
  return /^# (?:BEGIN|END) kfd-checkpoint\b/m.test(text);
}

/** Why CRIU would not read our settings from this text; empty when it would. */
export function blockProblems(text: string): string[] {
  try {
    const { before, block, after } = aroundBlock(text);
    const problems = foreignLines(before + after).map((line) => `another line sets "${line}"`);
    if (block === undefined) problems.push('our lines are missing');
    else if (block !== ourBlock) problems.push('our lines are not from this version');
    return problems;
  } catch (error) {
    if (error instanceof KfdError) return [error.message];
    throw error;
  }
}

function aroundBlock(text: string): { before: string; block: string | undefined; after: string } {
  const starts = text.split(/^# BEGIN kfd-checkpoint\b/m).length - 1;
  const ends = text.split(/^# END kfd-checkpoint$/m).length - 1;
  if (starts === 0 && ends === 0) return { before: '', block: undefined, after: text };
  const match = /^# BEGIN kfd-checkpoint\b[\s\S]*?^# END kfd-checkpoint$\n?/m.exec(text);
  if (starts !== 1 || ends !== 1 || match === null) {
    throw new KfdError('E_CONFIG', `${defaultConfPath}: the marks of our lines are damaged`, {
      hint: 'remove every line between and including "# BEGIN kfd-checkpoint" and "# END kfd-checkpoint"',
    });
  }
  const from = match.index;
  const to = from + match[0].length;
  return { before: text.slice(0, from), block: match[0], after: text.slice(to) };
}

/** Lines that set libdir, also in the abbreviated forms that getopt_long accepts. */
function foreignLines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim())
    .filter((line) => {
      const option = line.split(/[\s=]/)[0] ?? '';
      return option.length >= 3 && 'libdir'.startsWith(option);
    });
}
