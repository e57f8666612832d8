/**
 * One task of the shim, in a process of its own; the request it is about comes on standard input.
 *
 *   preflight                                  CreateTaskRequest: can its image be restored here?
 *   explain OPERATION BUNDLE SINCE MESSAGE     the request that failed with MESSAGE; SINCE: milliseconds since 1970
 *   cancel-restore                             CreateTaskRequest of a restore that runs
 *   end-leftover                               CreateTaskRequest of a restore that failed; environment NAMESPACE
 *   publish                                    CheckpointTaskRequest that succeeded, nothing if it did not; environment
 *                                              NAMESPACE, TTRPC_ADDRESS
 *
 * The first two answer with a ttrpc Response, the others with nothing.
 */

import { readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { defaultConfig, loadConfig } from '../../src/config.js';
import { asKfdError } from '../../src/errors.js';
import { preflight } from '../../src/session/restore/preflight.js';
import { encodeResponse, type Response, statusCode } from '../transport/envelope.js';
import { cancelRestore } from './cancel-restore.js';
import {
  checkpointTaskRequest,
  createTaskRequest,
  dumpWorkPath,
  restoreWorkPath,
} from './codec.js';
import { explain, newest } from './criu-log.js';
import { endLeftover } from './leftover.js';
import { publishCheckpointed } from './publish.js';
import { responseFor } from './status.js';

function ok(message = ''): Response {
  return { code: statusCode.ok, message, payload: Buffer.alloc(0) };
}

async function judge(request: Buffer): Promise<Response> {
  try {
    const { checkpoint } = createTaskRequest.decode(request);
    await preflight(checkpoint, (await loadConfig()).gpu_map);
    return ok();
  } catch (error) {
    return responseFor(asKfdError(error, 'image'));
  }
}

async function account(
  [operation, bundle = '', since, message = '']: readonly string[],
  request: Buffer,
): Promise<Response> {
  const isDump = operation === 'dump';
  const workPath = isDump
    ? dumpWorkPath(checkpointTaskRequest.decode(request).options)
    : restoreWorkPath(createTaskRequest.decode(request).options);
  // The stock shim saves a dump's log in the bundle, when nobody asked for it elsewhere.
  const usual = isDump ? 'criu-dump.log' : 'work/restore.log';
  const places = [
    ...(workPath === '' ? [] : [join(workPath, `${operation}.log`)]),
    join(bundle, usual),
  ];
  const log = await newest(places, Number(since));
  const { log_dir: logDirectory } = await loadConfig().catch(defaultConfig);
  return ok(await explain(message, isDump ? 'dump' : 'restore', log, logDirectory));
}

async function main([task, ...args]: readonly string[]): Promise<void> {
  const request = readFileSync(0);
  const { TTRPC_ADDRESS: daemon = '', NAMESPACE: namespace = '' } = process.env;
  if (task === 'cancel-restore') return cancelRestore(createTaskRequest.decode(request).bundle);
  if (task === 'end-leftover') return endLeftover(createTaskRequest.decode(request), namespace);
  if (task === 'publish') {
    if (request.length === 0) return;
    const { id, path } = checkpointTaskRequest.decode(request);
    return publishCheckpointed(daemon, namespace, id, path);
  }
  const answer = task === 'preflight' ? await judge(request) : await account(args, request);
  writeSync(1, encodeResponse(answer));
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${asKfdError(error, 'shim').message}\n`);
    process.exit(1);
  },
);
