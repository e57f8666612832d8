/**
 * src/session/states.md, made from the machines. Run as a program it prints the page:
 * `node dist/test/unit/states-page.js >src/session/states.md`.
 */

import { transition as dump } from '../../src/session/dump/machine.js';
import { transition as restore } from '../../src/session/restore/machine.js';
import * as dumped from './dump-world.js';
import { exploreAll } from './explore.js';
import * as restored from './restore-world.js';
import { section } from './states-table.js';

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
      everyEvent: dumped.everyEvent,
      explore: (visit) => exploreAll(dumped.explored, visit),
      source: 'src/session/dump/state.ts',
      phaseOf: ({ state }) => state.phase,
      transition: ({ state }, event) => dump(state, event),
    }),
    section('A restore', {
      everyEvent: restored.everyEvent,
      explore: (visit) => exploreAll(restored.explored, visit),
      source: 'src/session/restore/machine.ts',
      phaseOf: ({ state }) => state.phase,
      transition: ({ state }, event) => restore(state, event),
    }),
  ].join('\n');
}

if (process.argv[1]?.endsWith('states-page.js')) process.stdout.write(statesPage());
