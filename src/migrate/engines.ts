/** The engine of a container that moves. */

import type { Engine, EngineSetting } from './engine.js';
import type { JournalRecord } from './journal.js';
import { podmanEngine } from './podman-engine.js';

/** As a side has recorded the container, or is about to. */
export function engineOf(
  { container_id: containerId }: Pick<JournalRecord, 'container_id'>,
  setting: EngineSetting,
): Engine {
  return podmanEngine(containerId, setting);
}
