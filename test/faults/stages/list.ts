/** Every point at which a process of the test build can be held, by who comes to it. src/stages.ts has more. */

export const points = {
  /** Session of a checkpoint: ready for the plugin, messages, then the phases of src/session/dump/machine.ts. */
  'session-dump': [
    'ready',
    'pause',
    'begin',
    'draining',
    'gate',
    'states',
    'manifest',
    'sealed',
    'unsealed',
    'resumed',
    'finishing',
    'kept',
    'done',
    'failed',
    'over',
  ],
  /** Session of a restore: after the preflight, messages, then the phases of src/session/restore/machine.ts. */
  'session-restore': [
    'ready',
    'restored',
    'gate',
    'resuming',
    'resume-called',
    'resumed',
    'releasing',
    'failed',
    'over',
  ],
  /** A thread of the session: a part is written, a part will be read. */
  transfer: ['drain', 'upload'],
  /** CRIU that dumps. */
  'plugin-dump': [
    'looked',
    'surveyed',
    'pausing',
    'paused',
    'all-paused',
    'states-sent',
    'begun',
    'ending',
    'ended',
    'over',
    'sealing',
    'sealed',
  ],
  /** CRIU that restores (`begun`, `ending`), and the restored tasks. */
  'plugin-restore': ['begun', 'asking', 'restoring', 'made', 'restored', 'mapped', 'ending'],
  launcher: ['starting', 'started', 'asking', 'asked', 'answered'],
  /** The proxy before containerd's stock shim. */
  shim: ['creating', 'created', 'restoring', 'restored', 'saving', 'saved'],
  /** The program that it starts, by what it is to do. */
  'shim-task': ['preflight', 'explain', 'cancel-restore', 'end-leftover', 'publish'],
  /** A migration, by what has just been recorded or has ended. `begun`: both sides have agreed. */
  'migrate-source': [
    'begun',
    'stopping',
    'stopped',
    'sent',
    'granted',
    'given',
    'done',
    'returning',
    'returned',
  ],
  /**
   * The same at its target; `ahead`, `memory`, `streaming` and `taking` are programs for contents, `started` is the end
   * of podman's restore.
   */
  'migrate-target': [
    'begun',
    'ahead',
    'memory',
    'streaming',
    'taking',
    'received',
    'ready',
    'starting',
    'started',
    'resumed',
    'doubt',
    'owned',
    'settled',
    'ended',
  ],
  /** It has read the record and tells that it watches, its lease is over, it has ended what ran under it. */
  'migrate-guard': ['looked', 'over', 'acted'],
  cli: ['saving', 'saved', 'restoring', 'restored'],
} as const;

type Points = typeof points;
/** SIDE.POINT, the name of the file that holds who comes there. */
export type Stage = { [S in keyof Points]: `${S}.${Points[S][number]}` }[keyof Points];

export const stages: readonly Stage[] = Object.entries(points).flatMap(([side, names]) =>
  names.map((name) => `${side}.${name}` as Stage),
);
