/** All subjects by name. A new file of inputs gets a line here. */

import { compression } from './compression.js';
import { contents } from './contents.js';
import { documentInputs } from './documents.js';
import { environment } from './environment.js';
import { layouts } from './layouts.js';
import { links } from './links.js';
import { manifest } from './manifest.js';
import { manifestText } from './manifest-text.js';
import { pages } from './pages.js';
import { parents } from './parents.js';
import { preflight } from './preflight.js';
import { siblings } from './siblings.js';
import { state } from './state.js';
import type { HostileInput } from './suite.js';
import { tar } from './tar.js';

export const subjects: Readonly<Record<string, readonly HostileInput[]>> = {
  compression,
  contents,
  documents: documentInputs,
  environment,
  layouts,
  manifest,
  'manifest-text': manifestText,
  pages,
  parents,
  preflight,
  siblings,
  state,
  links,
  tar,
};
