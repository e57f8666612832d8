/** Twenty rows for `npm test`: each operation, and faults that once lost something. */

import type { PodmanOperation } from './operations.js';
import { type ContainerdOperation, type Row, type RowEngine, type Step, struck } from './row.js';

type Line = readonly [PodmanOperation | ContainerdOperation, RowEngine, Step];

const lines: readonly Line[] = [
  ['export', 'crun', struck('session', 'transfer.drain')],
  ['export', 'crun', { fault: 'log full' }],
  ['export', 'runc', struck('criu', 'plugin-dump.begun')],
  ['leave', 'crun', struck('session', 'session-dump.resumed')],
  ['leave', 'crun', struck('runtime', 'session-dump.resumed', 'SIGTERM')],
  ['leave', 'runc', struck('session', 'session-dump.resumed')],
  ['place', 'crun', struck('launcher', 'session-dump.sealed')],
  ['place', 'crun', { stage: 'session-dump.sealed', fault: 'image full' }],
  ['place', 'runc', struck('launcher', 'session-dump.sealed')],
  ['parent', 'runc', struck('cli', 'cli.saving')],
  ['import', 'crun', struck('criu', 'plugin-restore.restored')],
  ['import', 'crun', struck('session', 'transfer.upload')],
  ['import', 'crun', { stage: 'plugin-restore.restoring', fault: 'kernel without memory' }],
  ['import', 'crun', struck('conmon', 'session-restore.resuming', 'SIGTERM')],
  ['import', 'runc', struck('criu', 'plugin-restore.restored')],
  ['import', 'runc', struck('launcher', 'session-restore.gate')],
  ['import-parent', 'crun', struck('cli', 'cli.restored')],
  ['restore-place', 'runc', struck('script', 'session-restore.ready', 'SIGTERM')],
  ['ctr-checkpoint', 'containerd', struck('proxy', 'shim.saving')],
  ['ctr-restore', 'containerd', struck('session', 'transfer.upload')],
];

export const crossSection: readonly Row[] = lines.map(([operation, engine, step]) => ({
  operation,
  engine,
  steps: [step],
}));
