/** Which GPUs are tested: `--gpu`. */

import { KfdError } from '../errors.js';
import type { Host } from '../gpu/host.js';
import type { TestGpu } from './bench.js';
import type { Facts } from './facts.js';

/**
 * The GPUs with these render nodes ("renderD128,renderD129"), or all with a render node. Throws E_NOT_FOUND for a name
 * that no GPU of KFD has.
 */
export function selectedGpus(words: string | undefined, host: Host, facts: Facts): TestGpu[] {
  const all = host.gpus
    .filter(({ renderDevice }) => renderDevice !== undefined)
    .map(({ record }) => ({
      ordinal: record.ordinal,
      gpuId: record.gpu_id,
      minor: record.render_minor,
      svm: facts.gpus[record.ordinal]?.svm === true,
    }));
  if (words === undefined) return all;
  const names = words.split(',').map((word) => word.trim().replace(/^\/dev\/dri\//, ''));
  const unknown = names.find((name) => !all.some(({ minor }) => name === `renderD${minor}`));
  if (unknown !== undefined) {
    const known = all.map(({ minor }) => `renderD${minor}`).join(', ') || 'none';
    throw new KfdError('E_NOT_FOUND', `--gpu: ${unknown}: no GPU of KFD`, {
      hint: `the GPUs of this host are: ${known}`,
    });
  }
  return all.filter(({ minor }) => names.includes(`renderD${minor}`));
}
