/** Rows by name: faults that once lost something. Ten of them, with each operation, are for `npm test`. */

import type { PodmanOperation } from './operations.js';
import { type ContainerdOperation, type Row, type RowEngine, type Step, struck } from './row.js';

/** The last one: `npm test` tries it. */
type Line = readonly [PodmanOperation | ContainerdOperation, RowEngine, Step, 'always'?];

/** podman is killed in a restore in place, and then what it had started: the runtime keeps a container. */
const struckWithRuntime: readonly Row[] = (['crun', 'runc'] as const).map((engine) => ({
  operation: 'restore-place',
  engine,
  steps: [
    struck('engine', 'plugin-restore.restoring'),
    struck('runtime', 'plugin-restore.restored'),
  ],
}));

const lines: readonly Line[] = [
  ['export', 'crun', struck('session', 'transfer.drain'), 'always'],
  ['export', 'crun', { fault: 'log full' }],
  ['export', 'runc', struck('criu', 'plugin-dump.begun'), 'always'],
  ['leave', 'crun', struck('session', 'session-dump.resumed')],
  ['leave', 'crun', struck('runtime', 'session-dump.resumed', 'SIGTERM'), 'always'],
  ['leave', 'runc', struck('session', 'session-dump.resumed')],
  ['place', 'crun', struck('launcher', 'session-dump.sealed'), 'always'],
  ['place', 'crun', { stage: 'session-dump.sealed', fault: 'image full' }],
  ['place', 'runc', struck('launcher', 'session-dump.sealed')],
  ['parent', 'runc', struck('cli', 'cli.saving'), 'always'],
  ['import', 'crun', struck('criu', 'plugin-restore.restored'), 'always'],
  ['import', 'crun', struck('session', 'transfer.upload')],
  ['import', 'crun', { stage: 'plugin-restore.restoring', fault: 'kernel without memory' }],
  ['import', 'crun', struck('conmon', 'session-restore.resuming', 'SIGTERM')],
  ['import', 'runc', struck('criu', 'plugin-restore.restored')],
  ['import', 'runc', struck('launcher', 'session-restore.gate')],
  ['import-parent', 'crun', struck('cli', 'cli.restored'), 'always'],
  ['restore-place', 'runc', struck('script', 'session-restore.ready', 'SIGTERM'), 'always'],
  ['ctr-checkpoint', 'containerd', struck('proxy', 'shim.saving'), 'always'],
  ['ctr-restore', 'containerd', struck('session', 'transfer.upload'), 'always'],
];

const rowOf = ([operation, engine, step]: Line): Row => ({ operation, engine, steps: [step] });

export const namedRows: readonly Row[] = [...lines.map(rowOf), ...struckWithRuntime];

/** What `npm test` tries of the table. */
export const crossSection: readonly Row[] = lines.filter(([, , , always]) => always).map(rowOf);
