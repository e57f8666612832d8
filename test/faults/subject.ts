/** A container of one engine, from row to row. */

import type { OperationName, Row } from './row.js';
import type { Job } from './support/job.js';
import type { Ended } from './support/program.js';

/** What the operation ended in, and what of it must not be. */
export interface Judged {
  readonly outcome: string;
  readonly problems: readonly string[];
}

/** Who was struck by the row: what the operation ends in is the user's wish then. */
export interface Struck {
  /** The container's own process. */
  readonly task: boolean;
  /** The client: it is asked for nothing, and containerd does not know that it has gone. */
  readonly client: boolean;
}

export interface Subject {
  /** For one operation, seconds. Missing: that of most. */
  readonly limitS?: number;
  /** The container as the operation needs it. Returns the program that is the operation. */
  begin(
    operation: OperationName,
    row: Row,
  ): Promise<{ readonly words: readonly string[]; readonly job?: Job }>;
  /** After the operation, when nothing of it runs any more. */
  judge(operation: OperationName, ended: Ended, struck: Struck): Promise<Judged>;
  /** Takes it away, with all that later rows would use: something is wrong with it. */
  forget(): Promise<void>;
  /** Kills the engine's daemon and starts it again, after `whileDown`. */
  restartDaemon?(whileDown: () => Promise<unknown>): Promise<void>;
}
