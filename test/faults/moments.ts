/** Which points an operation comes to, and who is there then. */

import type { PodmanOperation } from './operations.js';
import type { Stage } from './stages/list.js';
import type { Victim } from './support/victims.js';

export interface Moment {
  readonly stage: Stage;
  readonly victims: readonly Victim[];
}

const withoutSession: readonly Victim[] = ['criu', 'runtime', 'engine', 'conmon', 'task'];
const all: readonly Victim[] = ['session', ...withoutSession];
const whileAsked: readonly Victim[] = ['launcher', 'script', ...all];
const afterCriu: readonly Victim[] = ['session', 'engine'];

function moments(victims: readonly Victim[], ...stages: readonly Stage[]): Moment[] {
  return stages.map((stage) => ({ stage, victims }));
}

const dump: readonly Moment[] = [
  ...moments(withoutSession, 'plugin-dump.looked'),
  ...moments(['launcher', 'script', ...withoutSession], 'launcher.starting'),
  ...moments(whileAsked, 'session-dump.ready', 'launcher.started'),
  ...moments(all, 'plugin-dump.surveyed', 'session-dump.pause', 'plugin-dump.pausing'),
  ...moments(all, 'plugin-dump.paused', 'plugin-dump.all-paused', 'plugin-dump.states-sent'),
  ...moments(
    all,
    'session-dump.begin',
    'session-dump.draining',
    'transfer.drain',
    'plugin-dump.begun',
  ),
  ...moments(
    whileAsked,
    'launcher.asking',
    'launcher.asked',
    'session-dump.gate',
    'session-dump.states',
  ),
];

const sealedAtGate: readonly Moment[] = [
  ...moments(whileAsked, 'session-dump.manifest', 'session-dump.sealed', 'launcher.answered'),
  ...moments(all, 'plugin-dump.ending', 'session-dump.kept', 'plugin-dump.ended'),
  ...moments(all, 'plugin-dump.over', 'plugin-dump.sealing', 'session-dump.done'),
  ...moments(all, 'plugin-dump.sealed'),
  ...moments(afterCriu, 'session-dump.over'),
];

const sealedLater: readonly Moment[] = [
  ...moments(whileAsked, 'session-dump.unsealed', 'launcher.answered'),
  ...moments(all, 'plugin-dump.ending', 'session-dump.resumed', 'plugin-dump.ended'),
  ...moments(all, 'plugin-dump.over', 'plugin-dump.sealing', 'session-dump.finishing'),
  ...moments(all, 'session-dump.manifest', 'session-dump.done', 'plugin-dump.sealed'),
  ...moments(afterCriu, 'session-dump.over'),
];

const restore: readonly Moment[] = [
  ...moments(withoutTask(withoutSession), 'plugin-restore.begun'),
  ...moments(withoutTask(['launcher', 'script', ...withoutSession]), 'launcher.starting'),
  ...moments(withoutTask(whileAsked), 'session-restore.ready', 'launcher.started'),
  ...moments(all, 'plugin-restore.asking', 'plugin-restore.restoring', 'plugin-restore.made'),
  ...moments(all, 'session-restore.restored', 'transfer.upload', 'plugin-restore.restored'),
  ...moments(all, 'plugin-restore.mapped'),
  ...moments(whileAsked, 'launcher.asking', 'launcher.asked', 'session-restore.gate'),
  ...moments(whileAsked, 'session-restore.resuming', 'session-restore.resume-called'),
  ...moments(whileAsked, 'session-restore.resumed', 'launcher.answered'),
  ...moments(withoutTask(all), 'plugin-restore.ending'),
  ...moments(['session'], 'session-restore.over'),
];

function withoutTask(victims: readonly Victim[]): readonly Victim[] {
  return victims.filter((victim) => victim !== 'task');
}

/**
 * What is held with this point, so that somebody comes to it: a small container's contents are there before CRIU asks
 * for them.
 */
export const heldWith: Partial<Readonly<Record<Stage, Stage>>> = {
  'session-dump.gate': 'transfer.drain',
  // So long that the lease is over.
  'migrate-guard.over': 'migrate-target.starting',
  'migrate-guard.acted': 'migrate-target.starting',
  'migrate-target.doubt': 'migrate-target.resumed',
};

/** Every second one: these differ from another operation in few points. */
function half(list: readonly Moment[], first: 0 | 1): readonly Moment[] {
  return list.filter((_, index) => index % 2 === first);
}

const command: readonly Victim[] = ['cli', 'engine'];

export const momentsOf: Readonly<Record<PodmanOperation, readonly Moment[]>> = {
  export: [...dump, ...sealedAtGate],
  // Contents that were copied aside never keep the gate.
  leave: [...half(dump, 0).filter(({ stage }) => stage !== 'session-dump.gate'), ...sealedLater],
  place: [...half(dump, 1), ...sealedAtGate],
  parent: [
    ...moments(['cli'], 'cli.saving', 'cli.saved'),
    ...half([...dump, ...sealedAtGate], 0).map(withCli),
  ],
  import: restore,
  'restore-place': restore,
  'import-parent': [
    ...moments(['cli'], 'cli.restoring', 'cli.restored'),
    ...half(restore, 1).map(withCli),
  ],
};

function withCli({ stage, victims }: Moment): Moment {
  return { stage, victims: [...victims, ...command.filter((victim) => !victims.includes(victim))] };
}
