/**
 * One task of the shim, in a process of its own. Standard input has the request that it belongs to.
 *
 *   preflight [move|move-own]                CreateTaskRequest. Can its image be restored here? With a word: on the
 *                                            GPUs of its spec. Where numbers differ the answer has the path of a
 *                                            changed copy, or the image is changed: move-own
 *   explain OPERATION BUNDLE SINCE MESSAGE   the request that failed with MESSAGE. SINCE: milliseconds
 *                                            since 1970. OPERATION: dump or restore
 *   cancel-checkpoint                        CheckpointTaskRequest of a running checkpoint
 *   cancel-restore [ended]                   CreateTaskRequest of a running restore. With the word, its container was
 *                                            killed or deleted. Without it, the caller has gone
 *   end-leftover                             CreateTaskRequest of a failed restore. Environment: NAMESPACE
 *   pause-again                              CreateTaskRequest of a container that the stock shim takes for paused.
 *                                            Environment: NAMESPACE
 *   publish                                  CheckpointTaskRequest that succeeded, or nothing if it
 *                                            failed. Environment: NAMESPACE, TTRPC_ADDRESS
 *
 * The first four write a ttrpc Response; a cancel without a session answers "not found". The others write
 * nothing. A shim of an earlier release may start this program after an upgrade, so names and arguments
 * stay as they are.
 */

import { readFileSync, writeSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { defaultConfig, loadConfig } from '../../src/config.js';
import { asKfdError } from '../../src/errors.js';
import { requestedForRestore } from '../../src/session/contents/requests.js';
import { preflight } from '../../src/session/restore/preflight.js';
import { stage } from '../../src/stages.js';
import { encodeResponse, type Response, statusCode } from '../../src/ttrpc/envelope.js';
import { allotted, withOnly } from './allotted.js';
import { cancelSession, type RuntimeCall } from './cancel-session.js';
import {
  checkpointTaskRequest,
  checkpointWorkPath,
  createTaskRequest,
  restoreWorkPath,
} from './codec.js';
import { explain, firstWrittenSince } from './criu-log.js';
import { endRemainingTasks, pauseAgain } from './oci-runtime.js';
import { publishCheckpointed } from './publish.js';
import { responseFor } from './status.js';

function ok(message = ''): Response {
  return { code: statusCode.ok, message, payload: Buffer.alloc(0) };
}

async function preflightAnswer([move]: readonly string[], request: Buffer): Promise<Response> {
  try {
    const create = createTaskRequest.decode(request);
    const { checkpoint } = create;
    const config = await loadConfig();
    const find = (roots: readonly string[]) => requestedForRestore(process.pid, roots);
    const { image, only } =
      move === undefined
        ? { image: checkpoint, only: undefined }
        : await allotted(create, config, { isOwn: move === 'move-own', find });
    const isCopy = image !== checkpoint;
    await preflight(image, withOnly(config, only), undefined, find).catch(
      async (error: unknown) => {
        if (isCopy) await rm(image, { recursive: true, force: true });
        throw error;
      },
    );
    return isCopy ? { ...ok(), payload: Buffer.from(image) } : ok();
  } catch (error) {
    return responseFor(asKfdError(error, 'image'));
  }
}

async function explainAnswer(
  [operation, bundle = '', since, message = '']: readonly string[],
  request: Buffer,
): Promise<Response> {
  const isCheckpoint = operation === 'dump';
  const workPath = isCheckpoint
    ? checkpointWorkPath(checkpointTaskRequest.decode(request).options)
    : restoreWorkPath(createTaskRequest.decode(request).options);
  // Without a work path, the stock shim keeps CRIU's log of a checkpoint in the bundle.
  const usualPath = isCheckpoint ? 'criu-dump.log' : 'work/restore.log';
  const paths = [
    ...(workPath === '' ? [] : [join(workPath, `${operation}.log`)]),
    join(bundle, usualPath),
  ];
  const log = await firstWrittenSince(paths, Number(since));
  const { log_dir: logDirectory } = await loadConfig().catch(defaultConfig);
  return ok(await explain(message, isCheckpoint ? 'dump' : 'restore', log, logDirectory));
}

async function cancelAnswer(call: RuntimeCall): Promise<Response> {
  if (await cancelSession(call)) return ok();
  return { ...ok('no session'), code: statusCode.notFound };
}

function answerOf(
  task: string | undefined,
  args: readonly string[],
  request: Buffer,
): Promise<Response> {
  switch (task) {
    case 'preflight':
      return preflightAnswer(args, request);
    case 'cancel-checkpoint': {
      const { path } = checkpointTaskRequest.decode(request);
      return cancelAnswer({ operation: 'checkpoint', path });
    }
    case 'cancel-restore': {
      const { bundle } = createTaskRequest.decode(request);
      return cancelAnswer({ operation: 'restore', path: bundle, isEnded: args[0] === 'ended' });
    }
    default:
      return explainAnswer(args, request);
  }
}

async function main([task, ...args]: readonly string[]): Promise<void> {
  const request = readFileSync(0);
  stage('shim-task', task ?? '');
  const { TTRPC_ADDRESS: daemon = '', NAMESPACE: namespace = '' } = process.env;
  if (task === 'end-leftover')
    return endRemainingTasks(createTaskRequest.decode(request), namespace);
  if (task === 'pause-again') return pauseAgain(createTaskRequest.decode(request), namespace);
  if (task === 'publish') {
    if (request.length === 0) return;
    const { id, path } = checkpointTaskRequest.decode(request);
    return publishCheckpointed(daemon, namespace, id, path);
  }
  writeSync(1, encodeResponse(await answerOf(task, args, request)));
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${asKfdError(error, 'shim').message}\n`);
    process.exit(1);
  },
);
