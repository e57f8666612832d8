/** This product as installed in the guest. */

import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { run } from './command.js';

export const prefix = '/usr/lib/kfd-checkpoint';
/** The copy of the plugin that CRIU loads. */
export const loadedPlugin = '/var/lib/kfd-checkpoint/criu/kfd_checkpoint.so';
const logs = '/var/log/kfd-checkpoint';
const configPath = '/etc/kfd-checkpoint/config.json';

/** Puts the package's files in their place, all of them anew. */
export async function unpack(): Promise<void> {
  await run('bash', '/repo/packaging/install.sh');
}

/** Installs as an operator would: the package's files, then `configure`. */
export async function install(): Promise<void> {
  await unpack();
  await run('kfd-checkpoint', 'configure');
}

/** All of it goes, also what `configure` has written. */
export async function uninstall(): Promise<void> {
  await run('bash', '/repo/packaging/uninstall.sh');
}

/** How many sessions have ever logged. */
export function sessionCount(): number {
  return existsSync(logs) ? readdirSync(logs).filter((name) => name.endsWith('.log')).length : 0;
}

export function configure(settings: Readonly<Record<string, unknown>>): void {
  mkdirSync(dirname(configPath), { recursive: true });
  writeFileSync(configPath, JSON.stringify(settings));
}
