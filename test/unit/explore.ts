/** Looks at every state that a machine can come to, and walks through it at random. */

import { randomFrom } from './random.js';

/** A machine together with a model of what is around it. */
export interface Explored<World, Event> {
  readonly begin: World;
  /** What can happen here. */
  events(world: World): readonly Event[];
  /** Throws when the machine does what it must never do. */
  happen(world: World, event: Event): World;
  /** Throws when something is left undone after CRIU has ended and every write has come to its end. */
  finish(world: World): void;
}

/**
 * Every pair of a state that can be reached and an event that can happen there. Returns how many there are. `visit`
 * gets each pair.
 */
export function exploreAll<World, Event>(
  explored: Explored<World, Event>,
  visit: (world: World, event: Event) => void = () => undefined,
): number {
  const seen = new Set([JSON.stringify(explored.begin)]);
  const left = [explored.begin];
  let pairs = 0;
  for (let world = left.pop(); world !== undefined; world = left.pop()) {
    explored.finish(world);
    for (const event of explored.events(world)) {
      pairs++;
      visit(world, event);
      const next = explored.happen(world, event);
      const key = JSON.stringify(next);
      if (seen.has(key)) continue;
      seen.add(key);
      left.push(next);
    }
  }
  return pairs;
}

/** Every world that can be reached. */
export function statesOf<World, Event>(explored: Explored<World, Event>): ReadonlySet<World> {
  const found = new Set<World>([explored.begin]);
  exploreAll(explored, (world) => found.add(world));
  return found;
}

/** `walks` of up to `steps` events each. A walk that throws names its seed. */
export function walkAtRandom<World, Event>(
  explored: Explored<World, Event>,
  walks: number,
  steps: number,
): void {
  for (let seed = 1; seed <= walks; seed++) {
    const below = randomFrom(seed * 2654435761);
    let world = explored.begin;
    try {
      for (let i = 0; i < steps; i++) {
        const events = explored.events(world);
        const event = events[below(events.length)];
        if (event === undefined) break;
        world = explored.happen(world, event);
      }
      explored.finish(world);
    } catch (error) {
      throw new Error(`walk with seed ${seed}`, { cause: error });
    }
  }
}
