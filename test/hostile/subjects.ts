/** All subjects by name. A new file of inputs gets a line here. */

import { compression } from './compression.js';
import { documentInputs } from './documents.js';
import { environment } from './environment.js';
import { links } from './links.js';
import type { HostileInput } from './suite.js';
import { tar } from './tar.js';

export const subjects: Readonly<Record<string, readonly HostileInput[]>> = {
  compression,
  documents: documentInputs,
  environment,
  links,
  tar,
};
