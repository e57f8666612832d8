/** The command by which a migration goes on. */

import type { SourceRecord } from '../migrate/journal.js';

type Named = Pick<SourceRecord, 'container' | 'host' | 'engine' | 'namespace'>;

/** As a user types it. */
export function againCommand({ container, host = 'HOST', engine, namespace }: Named): string {
  const options = engine === undefined ? [] : ['--engine', engine];
  const home = namespace === undefined ? [] : ['--namespace', namespace];
  return ['kfd-checkpoint', 'migrate', ...options, ...home, container, host].join(' ');
}
