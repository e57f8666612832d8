/**
 * Starts the proxy, given the stock shim's answer, and makes the answer for containerd. This runs in
 * the long-lived process. That one starts beside the stock shim, so the start of Node.js adds no time.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:net';
import { isMissing, KfdError } from '../../src/errors.js';
import { bytesField, fieldsOf } from '../../src/protobuf.js';
import { bundleFile, processesFile } from '../../src/runtime/shim-names.js';
import { type Client, connectTo } from '../../src/ttrpc/client.js';
import { statusCode } from '../../src/ttrpc/envelope.js';
import type { Intercept } from '../intercept/interception.js';
import { proxyFor } from '../proxy/server.js';
import { parseAnswer } from './answer.js';
import { watchForIdle } from './idle.js';
import { isServed, listenAt, ownSocket, removeIfPresent } from './own-socket.js';
import { writeProcesses } from './processes.js';

/** Time limit of the stock shim for its answer to Connect, milliseconds. */
const connectTimeoutMs = 10_000;
/** Time that callers get to read the last answers, milliseconds. */
const lastAnswersMs = 2_000;

/** A proxy that serves until its stock shim has ended. */
export interface Serving {
  /** Settles when stock shim and callers have ended and our files are removed. */
  readonly ended: Promise<void>;
}

export interface Started {
  /** For containerd. */
  readonly answer: Buffer;
  /** Missing when another process already serves this stock shim. */
  readonly serving?: Serving;
}

/**
 * Starts to serve for the stock shim that answered `stockAnswer` to the start of `id`. The bundle is
 * the working directory. `intercept` gets every call. Throws KfdError or Node's error, and then nothing
 * listens.
 */
export async function serve(
  stockAnswer: Buffer,
  id: string,
  intercept: Intercept,
): Promise<Started> {
  const { socket: stockSocket, withSocket } = parseAnswer(stockAnswer);
  const socket = ownSocket(stockSocket);
  // First, because it can fail: no socket may stay behind when the bundle cannot be written.
  writeFileSync(bundleFile, `${socket}\n`, { mode: 0o600 });
  renewAddressFile(stockSocket, socket);
  const serving = (await isServed(socket))
    ? undefined
    : await serveAt(socket, stockSocket, id, intercept);
  return { answer: withSocket(socket), ...(serving && { serving }) };
}

async function serveAt(
  socket: string,
  stockSocket: string,
  id: string,
  intercept: Intercept,
): Promise<Serving | undefined> {
  const server = proxyFor(stockSocket, intercept);
  let onUpstreamEnd = (): void => undefined;
  const upstreamEnded = new Promise<void>((resolve) => {
    onUpstreamEnd = resolve;
  });
  // Containerd closes its own connections before the stock shim ends. This one shows when it ends.
  const client = await connectTo(stockSocket, onUpstreamEnd);
  const stop = () => {
    server.close();
    client.close();
  };
  try {
    const { pid, service } = await connectCall(client, id);
    if (!(await present(server, socket, pid, stockSocket))) {
      stop();
      return undefined;
    }
    shareOomScore(pid);
    watchForIdle(server, () => {
      // A stock shim with containers answers and runs on.
      const request = { service, method: 'Shutdown', payload: bytesField(1, id) };
      client.call(request, connectTimeoutMs).catch(() => undefined); // it ends without an answer
    });
  } catch (error) {
    stop();
    throw error;
  }
  return {
    ended: upstreamEnded.then(() => {
      removeIfPresent(stockSocket); // a killed stock shim leaves it behind
      return closeServer(server, socket);
    }),
  };
}

/** Listens, and writes the files for `delete`. False when another process already listens. Throws Node's error. */
async function present(
  server: Server,
  socket: string,
  stockPid: number,
  stockSocket: string,
): Promise<boolean> {
  if (!(await listenAt(server, socket))) return false;
  try {
    writeProcesses(socket, stockPid, stockSocket);
  } catch (error) {
    removeSocket(socket);
    throw error;
  }
  return true;
}

/** Calls Connect in both versions of the service. A stock shim has one of them. Throws KfdError. */
async function connectCall(client: Client, id: string): Promise<{ pid: number; service: string }> {
  for (const version of ['v2', 'v3']) {
    const service = `containerd.task.${version}.Task`;
    const request = { service, method: 'Connect', payload: bytesField(1, id) };
    const { code, message, payload } = await client.call(request, connectTimeoutMs);
    if (code === statusCode.unimplemented) continue;
    if (code !== statusCode.ok) throw new KfdError('E_PROTOCOL', `stock shim: ${message}`);
    for (const { number, value } of fieldsOf(payload)) {
      if (number === 1 && typeof value === 'bigint') return { pid: Number(value), service };
    }
  }
  throw new KfdError('E_PROTOCOL', 'stock shim: its answer to Connect has no pid');
}

/**
 * Takes the OOM score of the stock shim, so that the kernel does not kill this process first. Its end
 * would be the end of the containers too.
 */
function shareOomScore(pid: number): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', readFileSync(`/proc/${pid}/oom_score_adj`));
  } catch {
    // A lower score needs a capability. The containers run without it too.
  }
}

/** Changes the file that containerd 1.6 and 1.7 read after a restart. The stock shim has written its own address. */
function renewAddressFile(stockSocket: string, socket: string): void {
  let text: string;
  try {
    text = readFileSync('address', 'latin1');
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  writeFileSync(
    'address',
    text.replaceAll(stockSocket, () => socket),
    'latin1',
  );
}

/** Callers get a moment to read the last answers. */
async function closeServer(server: Server, socket: string): Promise<void> {
  removeSocket(socket); // at once: later the path may belong to the next shim of the same container
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    setTimeout(resolve, lastAnswersMs);
  });
}

function removeSocket(socket: string): void {
  removeIfPresent(socket);
  removeIfPresent(processesFile(socket));
}
