/** Which stages run: `--stages`. */

import { KfdError } from '../errors.js';
import { type StageName, stageNames } from './stage.js';

/**
 * Names separated by commas, in any order; none of them means all. They run in the order of `stageNames`. `host` always
 * runs: it refuses a GPU that others use. Throws E_USAGE for a name that is no stage.
 */
export function selectedStages(words: string | undefined): StageName[] {
  if (words === undefined) return [...stageNames];
  const wanted = words.split(',').map((word) => word.trim());
  const known: readonly string[] = stageNames;
  const unknown = wanted.find((word) => !known.includes(word));
  if (unknown !== undefined) {
    throw new KfdError('E_USAGE', `--stages: "${unknown}" is no stage`, {
      hint: `stages are ${stageNames.join(', ')}`,
    });
  }
  return stageNames.filter((name) => name === 'host' || wanted.includes(name));
}
