/** The rows of containerd's containers. */

import { type ContainerdOperation, daemons, type Row, type Signal } from './row.js';
import type { Stage } from './stages/list.js';
import type { Victim } from './support/victims.js';

type Wrong = readonly [ContainerdOperation, Stage, Victim, Signal, ...(readonly [Stage, Victim])[]];

const wrongs: readonly Wrong[] = [
  ['ctr-checkpoint', 'shim.saving', 'proxy', 'SIGKILL'],
  ['ctr-checkpoint', 'shim.saving', 'cli', 'SIGKILL'],
  ['ctr-checkpoint', 'session-dump.ready', 'daemon', 'SIGKILL'],
  ['ctr-checkpoint', 'plugin-dump.paused', 'stock', 'SIGKILL'],
  ['ctr-checkpoint', 'plugin-dump.begun', 'criu', 'SIGKILL'],
  ['ctr-checkpoint', 'transfer.drain', 'session', 'SIGKILL'],
  ['ctr-checkpoint', 'launcher.asked', 'launcher', 'SIGKILL'],
  // ctr lets a container go on: its contents are copied aside, and never keep the gate.
  ['ctr-checkpoint', 'session-dump.resumed', 'runtime', 'SIGKILL'],
  ['ctr-checkpoint', 'session-dump.unsealed', 'cli', 'SIGTERM'],
  ['ctr-checkpoint', 'session-dump.states', 'script', 'SIGKILL'],
  ['ctr-checkpoint', 'session-dump.states', 'proxy', 'SIGSTOP'],
  ['ctr-checkpoint', 'plugin-dump.ending', 'session', 'SIGTERM'],
  ['ctr-checkpoint', 'shim.saved', 'stock', 'SIGKILL'],
  ['ctr-checkpoint', 'shim-task.publish', 'proxy', 'SIGKILL'],
  ['ctr-checkpoint', 'plugin-dump.begun', 'criu', 'SIGKILL', ['shim-task.explain', 'daemon']],
  ['ctr-restore', 'shim.creating', 'proxy', 'SIGKILL'],
  ['ctr-restore', 'shim-task.preflight', 'daemon', 'SIGKILL'],
  ['ctr-restore', 'shim.created', 'stock', 'SIGKILL'],
  ['ctr-restore', 'shim.restoring', 'cli', 'SIGKILL'],
  ['ctr-restore', 'launcher.starting', 'launcher', 'SIGTERM'],
  ['ctr-restore', 'plugin-restore.asking', 'criu', 'SIGKILL'],
  ['ctr-restore', 'plugin-restore.made', 'runtime', 'SIGKILL'],
  ['ctr-restore', 'transfer.upload', 'session', 'SIGKILL'],
  // containerd tells nobody that a client has gone, but its own end is seen.
  ['ctr-restore', 'transfer.upload', 'daemon', 'SIGKILL', ['shim-task.cancel-restore', 'stock']],
  ['ctr-restore', 'session-restore.gate', 'proxy', 'SIGKILL'],
  ['ctr-restore', 'session-restore.resumed', 'session', 'SIGSTOP'],
  [
    'ctr-restore',
    'session-restore.gate',
    'session',
    'SIGKILL',
    ['shim-task.end-leftover', 'proxy'],
  ],
  ['ctr-restore', 'shim.restored', 'daemon', 'SIGKILL'],
];

export const containerdRows: readonly Row[] = wrongs.map(
  ([operation, stage, victim, signal, ...more], index) => ({
    operation,
    engine: daemons[index % daemons.length] as (typeof daemons)[number],
    steps: [
      { stage, fault: { victim, signal } },
      ...more.map(([next, also]) => ({
        stage: next,
        fault: { victim: also, signal: 'SIGKILL' as const },
      })),
    ],
  }),
);
