/** Twenty rows for `npm test`: each operation, each kind of victim, and every fault that once lost something. */

import type { PodmanOperation } from './operations.js';
import type { ContainerdOperation, Row, RowEngine, Step } from './row.js';
import type { Stage } from './stages/list.js';
import type { Victim } from './support/victims.js';

const killed = (victim: Victim, stage: Stage): Step => ({
  stage,
  fault: { victim, signal: 'SIGKILL' },
});

const terminated = (victim: Victim, stage: Stage): Step => ({
  stage,
  fault: { victim, signal: 'SIGTERM' },
});

type Line = readonly [PodmanOperation | ContainerdOperation, RowEngine, Step];

const lines: readonly Line[] = [
  ['export', 'crun', killed('session', 'transfer.drain')],
  ['export', 'crun', { fault: 'log full' }],
  ['export', 'runc', killed('criu', 'plugin-dump.begun')],
  ['export', 'runc', { stage: 'session-dump.draining', fault: 'image full' }],
  ['leave', 'crun', killed('session', 'session-dump.resumed')],
  ['leave', 'crun', terminated('runtime', 'session-dump.resumed')],
  ['leave', 'runc', killed('session', 'session-dump.resumed')],
  ['place', 'crun', killed('launcher', 'session-dump.sealed')],
  ['place', 'crun', { stage: 'session-dump.sealed', fault: 'image full' }],
  ['place', 'runc', killed('launcher', 'session-dump.sealed')],
  ['parent', 'runc', killed('cli', 'cli.saving')],
  ['import', 'crun', killed('criu', 'plugin-restore.restored')],
  ['import', 'crun', killed('session', 'transfer.upload')],
  ['import', 'crun', { stage: 'plugin-restore.restoring', fault: 'kernel without memory' }],
  ['import', 'runc', killed('criu', 'plugin-restore.restored')],
  ['import', 'runc', killed('launcher', 'session-restore.gate')],
  ['import-parent', 'crun', killed('cli', 'cli.restored')],
  ['restore-place', 'runc', terminated('script', 'session-restore.ready')],
  ['ctr-checkpoint', 'containerd', killed('proxy', 'shim.saving')],
  ['ctr-restore', 'containerd', killed('session', 'transfer.upload')],
];

export const crossSection: readonly Row[] = lines.map(([operation, engine, step]) => ({
  operation,
  engine,
  steps: [step],
}));
