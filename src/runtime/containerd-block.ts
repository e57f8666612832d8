/**
 * Our lines at the end of containerd's own file, where a drop-in would have no effect. All other bytes of the file
 * stay. Texts are Latin-1 strings, so that any byte survives.
 */

import { KfdError } from '../errors.js';
import { containerdConfigPath, parseContainerdConfig } from './containerd-config.js';

const begin = '# BEGIN kfd-checkpoint (kept by "kfd-checkpoint configure containerd --edit")\n';
const end = '# END kfd-checkpoint\n';

/** Whether `configure` has written to this text, and has not undone it. */
export function hasBlock(text: string): boolean {
  return /^# (?:BEGIN|END) kfd-checkpoint\b/m.test(text);
}

/**
 * The text with `lines` at its end, new or renewed. They begin with the name of a table, or are all there is. Throws
 * E_CONFIG when the marks are damaged, or when the text is not TOML with the lines: it may have the table already.
 */
export function withRuntimeBlock(text: string, lines: string): string {
  const rest = withoutRuntimeBlock(text);
  const gap = rest === '' || rest.endsWith('\n') ? '' : '\n';
  const whole = `${rest}${gap}${begin}${lines}${end}`;
  try {
    parseContainerdConfig(new TextDecoder().decode(Buffer.from(whole, 'latin1')));
  } catch (error) {
    throw new KfdError('E_CONFIG', `${containerdConfigPath}: our lines cannot be added`, {
      cause: error,
      hint: 'run "kfd-checkpoint configure containerd" without --edit: it prints the lines for the file',
    });
  }
  return whole;
}

/** The text without our lines; unchanged when there are none. Throws E_CONFIG on damaged marks. */
export function withoutRuntimeBlock(text: string): string {
  if (!hasBlock(text)) return text;
  const starts = text.split(/^# BEGIN kfd-checkpoint\b/m).length - 1;
  const ends = text.split(/^# END kfd-checkpoint$/m).length - 1;
  const match = /^# BEGIN kfd-checkpoint\b[\s\S]*?^# END kfd-checkpoint$\n?/m.exec(text);
  if (starts === 1 && ends === 1 && match !== null) {
    return text.slice(0, match.index) + text.slice(match.index + match[0].length);
  }
  throw new KfdError('E_CONFIG', `${containerdConfigPath}: the marks of our lines are damaged`, {
    hint: 'remove every line between and including "# BEGIN kfd-checkpoint" and "# END kfd-checkpoint"',
  });
}
