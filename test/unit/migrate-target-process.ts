/** The target's side as a process of its own, with the host and the programs that MIGRATE_TEST names. */

import { serveSource } from '../../src/cli/migrate-target.js';
import { fakeNative, fakeRun } from './cli-context.js';

interface Setting {
  readonly root: string;
  readonly programs: Readonly<Record<string, string | number>>;
}

const setting = JSON.parse(process.env['MIGRATE_TEST'] ?? '') as Setting;
const services = {
  run: fakeRun(setting.programs),
  native: fakeNative,
  prefix: '/usr/lib/kfd-checkpoint',
  err: () => undefined,
  signal: new AbortController().signal,
  self: ['false'] as const,
};
serveSource(process.stdin, process.stdout, services, setting.root).catch(() => {
  process.exitCode = 1;
});
