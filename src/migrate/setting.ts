/** What both sides of a migration need of this installation. */

import type { ListPages } from '../manifest/ancestors.js';
import type { Run } from '../os/exec.js';

export interface HostSetting {
  /** Folder of the system. */
  readonly root: string;
  readonly run: Run;
  /** This program: Node.js and its arguments up to the verb. */
  readonly self: readonly [string, ...string[]];
  readonly listPages: ListPages;
}
