/**
 * Both machines of a migration with all that is around them: two hosts' containers and recorded phases, the network,
 * the guard, and time. The network loses, delays, repeats and reorders: what was said once can arrive at any time, any
 * number of times, or never. Either process can be killed between any two of its effects.
 */

import assert from 'node:assert/strict';
import { KfdError } from '../../src/errors.js';
import * as source from '../../src/migrate/protocol/source.js';
import * as target from '../../src/migrate/protocol/target.js';

export const error = new KfdError('E_IO', 'a failure');

export type ToTarget = 'rest' | 'grant' | 'yours' | 'revoke' | 'query' | 'done';
export type ToSource = 'ready' | 'resumed' | 'taken' | 'failed';

interface Process<State, Effect> {
  readonly state: State;
  /** Effects that are still to come. */
  readonly todo: readonly Effect[];
  /** It has a connection, as far as it knows. */
  readonly link: boolean;
}

export interface World {
  /** undefined: there is no process. */
  readonly source: Process<source.SourceState, source.SourceEffect> | undefined;
  readonly sourceDisk: source.SourcePhase | undefined;
  /** `stopping`: the checkpoint is at work. `coming`: it is being brought back. */
  readonly sourceBox: 'runs' | 'stopping' | 'stopped' | 'coming' | 'forgotten';
  readonly wantsLink: boolean;
  readonly target: Process<target.TargetState, target.TargetEffect> | undefined;
  readonly targetDisk: target.TargetPhase | undefined;
  readonly targetBox: 'none' | 'starting' | 'runs' | 'paused';
  /** `acting`: the target's process is the guard. */
  readonly guard: 'none' | 'armed' | 'acting';
  /** The target has fixed its deadline. */
  readonly asked: boolean;
  /** That deadline has passed. */
  readonly over: boolean;
  /** The connection has broken. Either side notices later. */
  readonly broken: boolean;
  readonly toTarget: readonly ToTarget[];
  readonly toSource: readonly ToSource[];
  /** How many more faults there can be. */
  readonly kills: number;
  readonly cuts: number;
  readonly failures: number;
}

export type Limits = Pick<World, 'kills' | 'cuts' | 'failures'>;

export const begin = (limits: Limits): World => ({
  source: { state: source.initialSource, todo: [], link: true },
  sourceDisk: undefined,
  sourceBox: 'runs',
  wantsLink: false,
  target: { state: target.initialTarget, todo: [], link: true },
  targetDisk: undefined,
  targetBox: 'none',
  guard: 'none',
  asked: false,
  over: false,
  broken: false,
  toTarget: [],
  toSource: [],
  ...limits,
});

/** Each pair of a state and an event that was met, for the page of states. */
export const met = {
  source: new Map<string, readonly [source.SourceState, source.SourceEvent]>(),
  target: new Map<string, readonly [target.TargetState, target.TargetEvent]>(),
};

export function happenAtSource(world: World, event: source.SourceEvent): World {
  const process = world.source;
  assert.ok(process && process.todo.length === 0);
  met.source.set(`${nameOf(process.state)} ${eventName(event)}`, [process.state, event]);
  const { state, effects } = source.transition(process.state, event);
  const link = event.type === 'connected' || (event.type !== 'lost' && process.link);
  return { ...world, source: { state, todo: effects, link } };
}

export function happenAtTarget(world: World, event: target.TargetEvent): World {
  const process = world.target;
  assert.ok(process && process.todo.length === 0);
  met.target.set(`${nameOf(process.state)} ${eventName(event)}`, [process.state, event]);
  const { state, effects } = target.transition(process.state, event);
  const link = event.type !== 'lost' && process.link;
  return { ...world, target: { state, todo: effects, link } };
}

type AnyState = { readonly phase: string; readonly failure?: unknown; readonly alone?: boolean };
type AnyEvent = { readonly type: string };

const nameOf = ({ phase, failure, alone }: AnyState): string =>
  `${phase}${failure === undefined ? '' : '!'}${alone === true ? '-' : ''}`;

/** All of an event but its error, which is always the same. */
const eventName = ({ type, ...rest }: AnyEvent): string =>
  [type, ...Object.values(rest).filter((value) => value !== error)].join(' ');

/** Names of processes by state and effects, which few objects have: a state is looked at again and again. */
const names = new WeakMap<object, string>();

function processName(one: World['source'] | World['target']): string {
  if (one === undefined) return '-';
  const known = names.get(one);
  if (known !== undefined) return known;
  const name = `${nameOf(one.state)} ${one.todo.join()} ${one.link}`;
  names.set(one, name);
  return name;
}

/** A name that is equal for equal worlds. */
export function keyOf(world: World): string {
  const { wantsLink, asked, over, broken, kills, cuts, failures } = world;
  const flags = +wantsLink + 2 * +asked + 4 * +over + 8 * +broken;
  const boxes = `${world.sourceDisk} ${world.sourceBox} ${world.targetDisk} ${world.targetBox}`;
  const words = `${world.toTarget.join()} ${world.toSource.join()}`;
  const limits = `${flags} ${kills} ${cuts} ${failures}`;
  const processes = `${processName(world.source)}|${processName(world.target)}`;
  return `${processes}|${boxes}|${words}|${world.guard} ${limits}`;
}

/** The connection is broken at once, and is known to be so later. */
export const cut = (world: World): World => ({ ...world, broken: true });

/** A repeated word is one word: the network repeats in any case. */
export function withWord<Word extends string>(words: readonly Word[], word: Word): readonly Word[] {
  return words.includes(word) ? words : [...words, word].sort();
}

/** Which side runs the container, or may already. */
export function running({ sourceBox, targetBox }: World): { source: boolean; target: boolean } {
  return {
    source: ['runs', 'stopping', 'coming'].includes(sourceBox),
    target: ['runs', 'starting'].includes(targetBox),
  };
}
