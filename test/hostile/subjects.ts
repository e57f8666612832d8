/** All subjects by name. A new file of inputs gets a line here. */

import { environment } from './environment.js';
import type { HostileInput } from './suite.js';
import { tar } from './tar.js';

export const subjects: Readonly<Record<string, readonly HostileInput[]>> = {
  environment,
  tar,
};
