/** The engine of a container that moves. */

import { containerdEngine } from './containerd-engine.js';
import type { Engine, EngineSetting } from './engine.js';
import type { JournalRecord } from './journal.js';
import { podmanEngine } from './podman-engine.js';

type Moved = Pick<JournalRecord, 'id' | 'container' | 'container_id' | 'engine' | 'namespace'>;

/** As a side has recorded the container, or is about to. */
export function engineOf(record: Moved, setting: EngineSetting): Engine {
  const { container_id: containerId, engine } = record;
  if (engine === 'containerd') return containerdEngine(record, setting);
  return podmanEngine(containerId, setting);
}
