/** Tables of a machine's states, from the pairs of a state and an event that can happen. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from './paths.js';

interface Step {
  readonly state: { readonly phase: string };
  readonly effects: readonly string[];
  readonly answer?: string;
}

export interface Machine<World, Event> {
  /** Calls `visit` for each pair that can happen. */
  explore(visit: (world: World, event: Event) => void): void;
  readonly everyEvent: readonly Event[];
  readonly source: string;
  phaseOf(world: World): string;
  transition(world: World, event: Event): Step;
}

/** Events that differ in what they carry. */
const details: Readonly<Record<string, string>> = {
  'aside true': ' with a short freeze',
  'success true': ' with success',
  'success false': ' with a failure',
  'survived true': ' and a task runs on',
  'processes 0': ' without a GPU process',
  'late true': ' after the deadline',
  'container runs': ', the container runs',
  'container paused': ', the container is paused',
  'container none': ', there is no container',
  'over true': ', the lease is over',
};

function nameOf(event: object): string {
  const { type, ...rest } = event as { type: string };
  const carried = Object.entries(rest).map(([key, value]) => details[`${key} ${value}`] ?? '');
  return type + carried.join('');
}

/** The states in the order of the source, each with its comment there. */
function meanings(source: string): ReadonlyMap<string, string> {
  const text = readFileSync(join(repository, source), 'utf8');
  const union = /export type \w+Phase =\n([\s\S]*?);\n/.exec(text)?.[1] ?? '';
  const members = union.matchAll(/(?:\/\*\*([\s\S]*?)\*\/\s*)?\| '([a-z]+)'/g);
  const plain = (comment: string) => comment.replaceAll(/\s*\n\s*\*?\s*/g, ' ').trim();
  return new Map([...members].map(([, comment = '', name = '']) => [name, plain(comment)]));
}

/** For each state: events with the same consequences, then those that cannot happen. */
function rowsOf<World, Event extends object>(machine: Machine<World, Event>): string[] {
  const found = new Map<string, Set<string>>();
  machine.explore((world, event) => {
    const phase = machine.phaseOf(world);
    const { state, effects, answer } = machine.transition(world, event);
    const moves = state.phase === phase ? [] : [`**${state.phase}**`];
    const what = [...moves, ...effects, ...(answer === undefined ? [] : [`"${answer}"`])];
    const key = `${phase}|${nameOf(event)}`;
    found.set(key, (found.get(key) ?? new Set()).add(what.join(', ') || 'nothing'));
  });
  const names = [...new Set(machine.everyEvent.map(nameOf))];
  return [...meanings(machine.source).keys()].flatMap((phase) => {
    const events = new Map<string, string[]>();
    for (const name of names) {
      const variants = oneUnpause(found.get(`${phase}|${name}`) ?? new Set(['cannot happen']));
      const key = variants.join('<br>');
      events.set(key, [...(events.get(key) ?? []), name]);
    }
    return [...events].flatMap(([what, all]) =>
      cellsOf(all).flatMap((cell) =>
        what.split('<br>').map((one) => `| ${phase} | ${cell} | ${one} |`),
      ),
    );
  });
}

/** The names in as few cells as have their place in a table. */
function cellsOf(names: readonly string[]): string[] {
  const cells: string[] = [];
  for (const name of names) {
    const longer = cells.length === 0 ? name : `${cells.at(-1)}<br>${name}`;
    if (longer.length > 150) cells.push(name);
    else cells.splice(-1, 1, longer);
  }
  return cells;
}

/** A pause is undone wherever there may be one: that is no second consequence. */
function oneUnpause(variants: ReadonlySet<string>): readonly string[] {
  const paused = (one: string) => one.replace(', ', ', unpause, ');
  const unpaused = (one: string) => one.replace('unpause, ', '');
  return [...variants]
    .filter((one) => paused(one) === one || !variants.has(paused(one)))
    .map((one) =>
      unpaused(one) !== one && variants.has(unpaused(one))
        ? one.replace('unpause, ', 'unpause (if paused), ')
        : one,
    )
    .sort();
}

export function section<World, Event extends object>(
  title: string,
  machine: Machine<World, Event>,
): string {
  return [
    `## ${title}`,
    '',
    '| state | meaning |',
    '|---|---|',
    ...[...meanings(machine.source)].map(([phase, text]) => `| ${phase} | ${text} |`),
    '',
    '| state | event | consequences |',
    '|---|---|---|',
    ...rowsOf(machine),
    '',
  ].join('\n');
}
