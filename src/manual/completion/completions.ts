/** The completions of all shells. */

import { describedProgram } from '../program.js';
import { bashCompletion } from './bash.js';
import { fishCompletion } from './fish.js';
import { completedProgram } from './model.js';
import { zshCompletion } from './zsh.js';

/** Texts by file name below `share`, where each shell looks for those of packages. */
export function completions(): ReadonlyMap<string, string> {
  const program = completedProgram(describedProgram());
  return new Map([
    ['bash-completion/completions/kfd-checkpoint', bashCompletion(program)],
    ['zsh/site-functions/_kfd-checkpoint', zshCompletion(program)],
    ['fish/vendor_completions.d/kfd-checkpoint.fish', fishCompletion(program)],
  ]);
}
