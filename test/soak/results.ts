/** Files with what was measured, in the folder that the guest shares. */

import { writeFileSync } from 'node:fs';
import { type Growth, growth } from './growth.js';
import { linePictures } from './lines.js';
import type { Sample } from './sample.js';

/** Writes PART.json and PART.svg, and says which values grow. */
export function keep(part: string, samples: readonly Sample[]): Growth[] {
  const found = growth(samples);
  writeFileSync(`/share/${part}.json`, `${JSON.stringify({ simulated: true, found, samples })}\n`);
  writeFileSync(`/share/${part}.svg`, linePictures(`${part}: ${samples.length} cycles`, samples));
  return found;
}
