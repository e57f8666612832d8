/** Walks through every world that a migration can come to. */

import assert from 'node:assert/strict';
import { sourceSteps } from './migrate-source-side.js';
import { targetSteps } from './migrate-target-side.js';
import { begin, cut, keyOf, type Limits, running, type World } from './migrate-world.js';

/** `anything`: whatever can go wrong does. `fair`: nothing any more. `no-network`: nothing else than that, for ever. */
export type Conditions = 'anything' | 'fair' | 'no-network';

export function nextWorlds(world: World, conditions: Conditions): World[] {
  const network = conditions !== 'no-network';
  const faults = conditions === 'anything';
  const next = [...sourceSteps(world, network, faults), ...targetSteps(world, network, faults)];
  if (!network && !world.broken) return [cut(world)];
  return faults ? [...next, ...faultsOf(world)] : next.map((one) => settled(one, network));
}

/** All effects at once: a word that is heard again and answered again leads nowhere. */
function settled(world: World, network: boolean): World {
  const busy = (one: World, side: 'source' | 'target') => (one[side]?.todo.length ?? 0) > 0;
  let now = world;
  while (busy(now, 'source')) now = sourceSteps(now, network, false)[0] as World;
  // Its effects come after guard and time.
  while (busy(now, 'target')) now = targetSteps(now, network, false).at(-1) as World;
  return now;
}

function faultsOf(world: World): World[] {
  const next: World[] = [];
  const { source, target, targetDisk } = world;
  if (world.cuts > 0 && !world.broken) next.push({ ...cut(world), cuts: world.cuts - 1 });
  if (world.kills === 0) return next;
  const killed: World = { ...cut(world), kills: world.kills - 1 };
  if (source !== undefined) next.push({ ...killed, source: undefined, wantsLink: false });
  // The guard lives longer than what it guards against: the protocol rests on that.
  if (target !== undefined && world.guard !== 'acting') next.push({ ...killed, target: undefined });
  // The target's host starts again. What it owns already is lost with it, as without any migration.
  if (targetDisk !== 'owned' && targetDisk !== 'settled')
    next.push({ ...killed, target: undefined, guard: 'none', targetBox: 'none' });
  return next;
}

/** Every world that can be reached. Throws where both sides run the container. */
export function reachable(limits: Limits): World[] {
  const first = begin(limits);
  const seen = new Set([keyOf(first)]);
  const worlds = [first];
  // It grows while it is walked through.
  for (const world of worlds) {
    const runs = running(world);
    assert.ok(!(runs.source && runs.target), `both run: ${keyOf(world)}`);
    for (const next of nextWorlds(world, 'anything')) {
      const key = keyOf(next);
      if (seen.has(key)) continue;
      seen.add(key);
      worlds.push(next);
    }
  }
  return worlds;
}

interface Visit {
  readonly key: string;
  readonly world: World;
  readonly left: World[];
  /** It leads somewhere else. */
  goesOn: boolean;
}

/** Where everything comes to that begins in one of `worlds`. Throws when something can go on for ever. */
export function ends(worlds: readonly World[], conditions: Conditions): World[] {
  const known = new Map<string, 'open' | 'done'>();
  const path: Visit[] = [];
  const found: World[] = [];
  const enter = (world: World): void => {
    const key = keyOf(world);
    const from = path.at(-1);
    if (key === from?.key) return;
    if (from !== undefined) from.goesOn = true;
    const before = known.get(key);
    assert.notEqual(before, 'open', `goes in a circle: ${key}`);
    if (before === 'done') return;
    known.set(key, 'open');
    path.push({ key, world, left: nextWorlds(world, conditions), goesOn: false });
  };
  for (const first of worlds) {
    enter(first);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const next = top.left.pop();
      if (next !== undefined) enter(next);
      else {
        if (!top.goesOn) found.push(top.world);
        known.set(top.key, 'done');
        path.pop();
      }
    }
  }
  return found;
}
