/**
 * From the stock shim's answer to a proxy that serves, and to the answer containerd gets. Runs in the long-lived process, which
 * starts beside the stock shim: the time of a Node.js start is not added to that of the stock shim's.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:net';
import { isMissing, KfdError } from '../../src/errors.js';
import type { Intercept } from '../intercept/interception.js';
import { proxyFor } from '../proxy/server.js';
import { type Client, connectTo } from '../transport/client.js';
import { statusCode } from '../transport/envelope.js';
import { bytesField, fieldsOf } from '../transport/fields.js';
import { parseAnswer } from './answer.js';
import { forget, isServed, listenAt, ownSocket } from './own-socket.js';
import { bundleFile, processesFile, writeProcesses } from './processes.js';
import { watchForCallers } from './unclaimed.js';

/** How long the stock shim may take to say who it is, milliseconds. */
const connectTimeoutMs = 10_000;
/** How long callers may take to read the last answers, milliseconds. */
const farewellMs = 2_000;

/** Serves for a stock shim until that one has ended. */
export interface Serving {
  /** Settles when stock shim and callers have ended, and nothing of us is left. */
  readonly ended: Promise<void>;
}

export interface Started {
  /** For containerd. */
  readonly answer: Buffer;
  /** Missing when another process serves this stock shim already. */
  readonly serving?: Serving;
}

/**
 * Begins to serve for the stock shim that gave `childAnswer` when it was asked to start `id`, with the bundle as working
 * directory; `intercept` sees every call. Throws KfdError or Node's error; then nothing listens.
 */
export async function serve(
  childAnswer: Buffer,
  id: string,
  intercept: Intercept,
): Promise<Started> {
  const { socket: child, withSocket } = parseAnswer(childAnswer);
  const socket = ownSocket(child);
  // First what can fail: a bundle that cannot be written is to leave no socket.
  writeFileSync(bundleFile, `${socket}\n`, { mode: 0o600 });
  renewAddressFile(child, socket);
  const serving = (await isServed(socket))
    ? undefined
    : await serveAt(socket, child, id, intercept);
  return { answer: withSocket(socket), ...(serving && { serving }) };
}

async function serveAt(
  socket: string,
  child: string,
  id: string,
  intercept: Intercept,
): Promise<Serving | undefined> {
  const server = proxyFor(child, intercept);
  let hearEnd = (): void => undefined;
  const childEnded = new Promise<void>((resolve) => {
    hearEnd = resolve;
  });
  // Containerd closes its own connections before the stock shim ends: this one tells.
  const client = await connectTo(child, hearEnd);
  const { pid, service } = await introduction(client, id);
  if (!(await listenAt(server, socket))) {
    server.close();
    client.close();
    return undefined;
  }
  try {
    writeProcesses(socket, pid, child);
    shareOomScore(pid);
  } catch (error) {
    forgetSocket(socket);
    throw error;
  }
  watchForCallers(server, () => {
    // One with containers answers that it is done, and goes on.
    const request = { service, method: 'Shutdown', payload: bytesField(1, id) };
    client.call(request, connectTimeoutMs).catch(() => undefined); // its end is no answer
  });
  return {
    ended: childEnded.then(() => {
      forget(child); // one that was killed leaves it
      return takeLeave(server, socket);
    }),
  };
}

/** Asks by the versions of the service there are; a stock shim knows one of them. Throws KfdError. */
async function introduction(client: Client, id: string): Promise<{ pid: number; service: string }> {
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
  throw new KfdError('E_PROTOCOL', 'stock shim: it does not tell its pid');
}

/** When memory runs out we go no sooner than the stock shim: our end is that of its containers, too. */
function shareOomScore(pid: number): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', readFileSync(`/proc/${pid}/oom_score_adj`));
  } catch {
    // Lowering it takes a capability. The containers run all the same.
  }
}

/** Where containerd 1.6 and 1.7 look after a restart; the stock shim has written its own address there. */
function renewAddressFile(child: string, socket: string): void {
  let text: string;
  try {
    text = readFileSync('address', 'latin1');
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  writeFileSync(
    'address',
    text.replaceAll(child, () => socket),
    'latin1',
  );
}

/** The last answers are still on their way to callers, which get a moment to read them. */
async function takeLeave(server: Server, socket: string): Promise<void> {
  forgetSocket(socket); // at once: later it may be that of the next one for the same container
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    setTimeout(resolve, farewellMs);
  });
}

function forgetSocket(socket: string): void {
  forget(socket);
  forget(processesFile(socket));
}
