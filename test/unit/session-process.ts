/** The session's program as the launcher starts it, for a CRIU that is played by a sleep. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { repository, temporaryFolder } from './paths.js';

/** What goes wrong in the program: the pipe to the launcher breaks, or its folder cannot be removed. */
export type Fault = 'pipe' | 'folder';

export interface Bend {
  readonly operation?: string;
  /** The configuration file, in the place of this host's. */
  readonly config?: object;
  readonly fault?: Fault;
}

/** Loaded before the program. It changes functions of Node.js by the variables that `startSession` sets. */
const preload = `import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
const { PLAYED_CONFIG: config, PLAYED_FAULT: fault, PLAYED_WRITES: writes } = process.env;
const { appendFileSync, promises, rmSync, writeSync } = fs;
const { open } = promises;
const broken = () => Object.assign(new Error('EIO: played'), { code: 'EIO' });
promises.open = (path, ...more) =>
  open(path === '/etc/kfd-checkpoint/config.json' ? config : path, ...more);
fs.writeSync = (fd, text, ...more) => {
  if (fd === 3) appendFileSync(writes, text);
  if (fd === 3 && fault === 'pipe') throw broken();
  return writeSync(fd, text, ...more);
};
fs.rmSync = (path, ...more) => {
  if (fault === 'folder' && /^.run.kfd-checkpoint.\\d+$/.test(path)) throw broken();
  return rmSync(path, ...more);
};
syncBuiltinESMExports();
`;

/** A sleep in the place of CRIU. */
export function playedCriu(t: TestContext) {
  const criu = spawn('sleep', ['60'], { stdio: 'ignore' });
  t.after(() => criu.kill('SIGKILL'));
  return criu;
}

/** The session of `images`, and what it says to the launcher when it is started. */
export async function startSession(
  t: TestContext,
  images: string | undefined,
  { operation = 'restore', config, fault = undefined }: Bend = {},
  criu = playedCriu(t),
) {
  const folder = await temporaryFolder(t);
  const [first, writes] = [join(folder, 'preload.mjs'), join(folder, 'writes')];
  await writeFile(first, preload);
  const configFile = join(folder, 'config.json');
  if (config !== undefined) await writeFile(configFile, JSON.stringify(config));
  const program = join(repository, 'dist/src/session/main.js');
  const words = [operation, String(criu.pid), ...(images === undefined ? [] : [images])];
  const daemon = spawn(process.execPath, ['--import', first, program, ...words], {
    env: {
      ...process.env,
      PLAYED_CONFIG: configFile,
      PLAYED_FAULT: fault,
      PLAYED_WRITES: writes,
    },
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
  });
  t.after(() => daemon.kill('SIGKILL'));
  let answer = '';
  const pipe = daemon.stdio[3];
  assert.ok(pipe !== null && pipe !== undefined && 'read' in pipe);
  pipe.on('data', (chunk: Buffer) => {
    answer += chunk.toString();
  });
  let errors = '';
  daemon.stderr?.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const closed = once(daemon, 'close') as Promise<[status: number | null]>;
  await once(pipe, 'end');
  return {
    criu,
    daemon,
    answer,
    errors: closed.then(() => errors),
    status: closed.then(([status]) => status),
    /** What was written to the launcher's descriptor, or to the one that has its number now. */
    said: () => (existsSync(writes) ? readFileSync(writes, 'utf8') : ''),
  };
}
