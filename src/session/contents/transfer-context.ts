/** The parts of a session that a transfer needs. */

import type { Config } from '../../config.js';
import type { Logger } from '../../log.js';
import type { ContentsSender } from '../../native.js';
import type { Transfers } from './transfers.js';

export interface TransferContext {
  readonly config: Config;
  readonly log: Logger;
  /** The image directory. */
  readonly image: string;
  /** Where a checkpoint writes its pages files: the image directory, or a folder that somebody has named. */
  readonly contents: string;
  /** Gets what a checkpoint writes there, too. */
  readonly stream?: ContentsSender;
  readonly transfers: Transfers;
}
