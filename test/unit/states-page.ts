/**
 * src/session/states.md, made from the machines. Run as a program it prints the page:
 * `node dist/test/unit/states-page.js >src/session/states.md`.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { transition as dump } from '../../src/session/dump/machine.js';
import { transition as restore } from '../../src/session/restore/machine.js';
import * as dumped from './dump-world.js';
import { type Explored, exploreAll } from './explore.js';
import { repository } from './paths.js';
import * as restored from './restore-world.js';

interface Step {
  readonly state: { readonly phase: string };
  readonly effects: readonly string[];
  readonly answer?: string;
}

interface Machine<World, Event> {
  readonly explored: Explored<World, Event>;
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
  exploreAll(machine.explored, (world, event) => {
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
      what
        .split('<br>')
        .flatMap((one) => inCells(all).map((cell) => `| ${phase} | ${cell} | ${one} |`)),
    );
  });
}

/** Many events in one cell are hard to read. */
const eventsInCell = 7;

function inCells(events: readonly string[]): string[] {
  return events.flatMap((_, at) =>
    at % eventsInCell === 0 ? [events.slice(at, at + eventsInCell).join('<br>')] : [],
  );
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

function section<World, Event extends object>(
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

export function statesPage(): string {
  return [
    '# States of a session',
    '',
    'This page is for developers of the session. It is made from the machines in `dump/machine.ts` and',
    '`restore/machine.ts`, by trying every event in every state that can be reached. A test compares it with them.',
    'To make it again: `npm run build:ts && node dist/test/unit/states-page.js >src/session/states.md`.',
    '',
    'Consequences are the next state in bold, effects in their order, and the answer to `end` in quotes. Several rows',
    'for the same event stand for several situations, for example whether CRIU waits for an answer. Events that cannot',
    'happen include the end of a write that nobody began, and a second question of CRIU before the first answer.',
    '',
    section('A checkpoint', {
      ...dumped,
      source: 'src/session/dump/state.ts',
      phaseOf: ({ state }) => state.phase,
      transition: ({ state }, event) => dump(state, event),
    }),
    section('A restore', {
      ...restored,
      source: 'src/session/restore/machine.ts',
      phaseOf: ({ state }) => state.phase,
      transition: ({ state }, event) => restore(state, event),
    }),
  ].join('\n');
}

if (process.argv[1]?.endsWith('states-page.js')) process.stdout.write(statesPage());
