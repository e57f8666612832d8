/**
 * The session daemon: `main.js dump|restore CRIU_PID IMAGE_DIRECTORY`. The launcher starts it with a pipe as descriptor
 * 3, which gets "ready" or the reason of a failure. `main.js spare` waits until a launcher hands both over.
 */

import { closeSync, writeSync } from 'node:fs';
import { inspect } from 'node:util';
import { readConfig } from '../config.js';
import { type Descriptor, native } from '../native.js';
import { requestedForDump } from './contents/requests.js';
import { SessionContext, type SessionRequest } from './context.js';
import { removeDeadFolders } from './control/folders.js';
import { ControlledSession } from './control/report.js';
import { ControlSocket } from './control/socket.js';
import { resultOf, type SessionResult } from './control/types.js';
import { DumpSession } from './dump/session.js';
import { rehearseHost } from './dump/this-host.js';
import { recordSession } from './metrics/record.js';
import { removeOldLogs } from './old-logs.js';
import { OwnCgroup } from './own-cgroup.js';
import { asSessionError, explain } from './plugin/serve-messages.js';
import { RestoreSession } from './restore/session.js';
import { SpareEnded, waitForWork } from './spare.js';

type Ready = Pick<Descriptor, 'fd' | 'close'>;

/** The pipe to the launcher, until it has been told. */
let ready: Ready | undefined;
/** The launcher sends standard error here. It shows failures before the session has a log. */
const earlyLog = '/var/log/kfd-checkpoint/session-stderr.log';

/** Of this session's work: a spare session that waits has none. */
let cgroup: OwnCgroup | undefined;

/** A launcher that was killed has ended CRIU's work: the session ends with CRIU. */
function reportToLauncher(text: string): void {
  const pipe = ready;
  // Once it is closed, its number may be that of another file.
  ready = undefined;
  try {
    if (pipe !== undefined) writeSync(pipe.fd, text);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EPIPE')) throw error;
  } finally {
    pipe?.close();
  }
}

/** What killed sessions have left is no reason against this one. */
function removeDead({ log }: SessionContext): void {
  try {
    const dead = removeDeadFolders();
    if (dead.length > 0) log.info({ dead }, 'removed folders of killed sessions');
  } catch (err) {
    log.warn({ err }, 'folders of killed sessions may stay');
  }
}

/** The work is done: logs that cannot be removed are no failure of it. */
function tidyLogs({ config, log }: SessionContext): void {
  try {
    removeOldLogs(config.log_dir, config.keep_logs);
  } catch (err) {
    log.warn({ err }, 'old logs may stay');
  }
}

/** Adds the session to the counters of the host, if the administrator wants them. */
async function count(context: SessionContext, result: SessionResult): Promise<void> {
  const { config, log, phases, request, transfers } = context;
  if (config.metrics_file === '') return;
  const operation = request.operation === 'dump' ? 'checkpoint' : 'restore';
  const contentBytes = transfers.progress().reduce((sum, { done }) => sum + done, 0);
  const timingsUs = phases.timings();
  await recordSession(config.metrics_file, { operation, contentBytes, timingsUs, ...result }, log);
}

function readRequest([operation, criuPid, imageDirectory]: readonly string[]): SessionRequest {
  if ((operation !== 'dump' && operation !== 'restore') || imageDirectory === undefined) {
    throw new Error('usage: main.js dump|restore CRIU_PID IMAGE_DIRECTORY');
  }
  return { operation, criuPid: Number(criuPid), imageDirectory };
}

/** The work of this session, at once or when a launcher has some. Rejects as `waitForWork`. */
async function takeWork(words: readonly string[]): Promise<SessionRequest> {
  if (words.length !== 1 || words[0] !== 'spare') {
    ready = { fd: 3, close: () => closeSync(3) };
    return readRequest(words);
  }
  // What is loaded and compiled now need not be later. The driver may come later, and the configuration be mended.
  await Promise.allSettled([readConfig(), rehearseHost()]);
  const work = await waitForWork(process.argv[1] ?? '');
  ready = work.ready;
  return work.request;
}

async function main(): Promise<void> {
  const request = await takeWork(process.argv.slice(2));
  const isSpare = process.argv[2] === 'spare';
  // The launcher has moved this process there.
  cgroup = new OwnCgroup();
  const { config, unknownOptions } = await readConfig();
  const isDump = request.operation === 'dump';
  const contents = isDump
    ? await requestedForDump(request.criuPid, request.imageDirectory)
    : undefined;
  const context = new SessionContext(request, config, contents);
  if (isSpare) context.log.info({}, 'was spare');
  if (unknownOptions.length > 0) context.log.warn({ options: unknownOptions }, 'unknown options');
  if (contents !== undefined)
    context.log.info({ folder: contents.folder.name, stream: contents.stream }, 'contents folder');
  cgroup.limit(config, context.log, isDump ? context.contents : undefined);
  const session = isDump ? new DumpSession(context) : new RestoreSession(context);
  const controlled = new ControlledSession(context, session);
  const control = new ControlSocket(controlled, context.log);
  const criu = native().openPidfd(request.criuPid);
  const criuEnded = new Promise<void>((resolve) => native().watchExit(criu, resolve));
  try {
    await session.start();
  } catch (error) {
    const known = asSessionError(error);
    context.log.error({ err: known, timings_us: context.phases.timings() }, 'refused');
    context.close();
    reportToLauncher(explain(known, context.logPath));
    return count(context, resultOf(isDump ? 'abandoned' : 'failed', known));
  }
  reportToLauncher('ready\n');
  // CRIU continues first.
  removeDead(context);
  await control.listen(context.directory);
  await criuEnded;
  const result = await session.finish();
  controlled.end(result);
  await control.end();
  await count(context, result);
  context.log.info({ peak_bytes: cgroup.peakMemory() }, 'memory');
  context.close();
  tidyLogs(context);
}

function fail(error: unknown): never {
  if (error instanceof SpareEnded) return end(0);
  const known = asSessionError(error);
  process.stderr.write(`${new Date().toISOString()} session: ${inspect(known)}\n`);
  try {
    reportToLauncher(explain(known, earlyLog));
  } catch {
    // The launcher has ended, or was none.
  }
  return end(1);
}

function end(status: number): never {
  cgroup?.leave();
  process.exit(status);
}

// Watching native threads must not keep the daemon alive.
main().then(() => end(0), fail);
