/**
 * src/migrate/protocol/states.md, made from the machines. Run as a program it prints the page:
 * `node dist/test/unit/migrate-page.js >src/migrate/protocol/states.md`.
 */

import { type SourceEvent, transition as source } from '../../src/migrate/protocol/source.js';
import { type TargetEvent, transition as target } from '../../src/migrate/protocol/target.js';
import { reachable } from './migrate-explore.js';
import { error, met } from './migrate-world.js';
import { section } from './states-table.js';

const sourceEvents: readonly SourceEvent[] = [
  { type: 'accepted' },
  { type: 'stopped' },
  { type: 'stop-failed', error },
  { type: 'ready' },
  { type: 'resumed' },
  { type: 'taken' },
  { type: 'failed', error },
  { type: 'lost', error },
  { type: 'connected' },
  { type: 'silent', error },
  { type: 'expired', error },
  { type: 'fail', error },
  { type: 'cancel', error },
  { type: 'back' },
  { type: 'back-failed', error },
  { type: 'restarted' },
];

const restarts = (['runs', 'paused', 'none'] as const).flatMap((container) =>
  [false, true].map((over) => ({ type: 'restarted', container, over, error }) as const),
);

const targetEvents: readonly TargetEvent[] = [
  { type: 'received' },
  { type: 'grant', late: false },
  { type: 'grant', late: true },
  { type: 'yours' },
  { type: 'done' },
  { type: 'revoke', error },
  { type: 'query' },
  { type: 'started' },
  { type: 'start-failed', error },
  { type: 'expired', error },
  { type: 'fail', error },
  { type: 'lost', error },
  ...restarts,
];

/** One fault of each kind meets every state. */
export function migrationPage(): string {
  met.source.clear();
  met.target.clear();
  reachable({ kills: 1, cuts: 1, failures: 1 });
  return [
    '# States of a migration',
    '',
    'This page is for developers. It is made from the machines in `source.ts` and `target.ts`. It has every event in',
    'every state that both come to together, with one kill, one cut and one failure. A test compares it with them.',
    'To make it again: `npm run build:ts && node dist/test/unit/migrate-page.js >src/migrate/protocol/states.md`.',
    '',
    'Consequences are the next state in bold and effects in their order. What the protocol promises is in',
    '[README.md](../README.md).',
    '',
    section('The source', {
      everyEvent: sourceEvents,
      explore: (visit) => {
        for (const [state, event] of met.source.values()) visit(state, event);
      },
      source: 'src/migrate/protocol/source.ts',
      phaseOf: ({ phase }) => phase,
      transition: source,
    }),
    section('The target', {
      everyEvent: targetEvents,
      explore: (visit) => {
        for (const [state, event] of met.target.values()) visit(state, event);
      },
      source: 'src/migrate/protocol/target.ts',
      phaseOf: ({ phase }) => phase,
      transition: target,
    }),
  ].join('\n');
}

if (process.argv[1]?.endsWith('migrate-page.js')) process.stdout.write(migrationPage());
