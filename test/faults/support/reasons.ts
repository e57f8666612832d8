/** Why an engine failed, as far as logs tell. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { criuLog, type Operation } from '../../e2e/support/session.js';
import type { Job } from './job.js';

const logs = '/var/log/kfd-checkpoint';
const most = 3;

/** The end of what the engine said, CRIU's first errors, and those of the newest session of this kind. */
export function reasonOf(job: Job, operation: Operation, stderr: string): string {
  const criu = criuLog(job.container, operation)
    .split('\n')
    .filter((line) => line.includes('Error ('))
    .slice(0, most);
  const said = (stderr.split('\n').at(-1) ?? '').slice(-160);
  return [said, ...criu, ...sessionErrors(operation)].join(' | ');
}

/** Messages of errors of the newest session. */
function sessionErrors(operation: Operation): string[] {
  const names = readdirSync(logs).filter((name) => name.includes(`-${operation}-`));
  const newest = names.sort().at(-1);
  if (newest === undefined) return [];
  const lines = readFileSync(join(logs, newest), 'utf8').split('\n');
  const errors = lines.filter((line) => line.includes('"level":"error"'));
  return errors.slice(0, most).map((line) => `session: ${/"message":"([^"]*)/.exec(line)?.[1]}`);
}
