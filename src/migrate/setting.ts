/** What both sides of a migration need of this installation. */

import type { ListPages } from '../manifest/ancestors.js';
import type { EngineSetting } from './engine.js';

export interface HostSetting extends EngineSetting {
  readonly listPages: ListPages;
}
