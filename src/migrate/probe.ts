/**
 * How fast bytes go to the target: some random ones over a connection like that for contents. Nothing is kept of them.
 * ssh and the other program have started before the time counts.
 */

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { KfdError } from '../errors.js';
import { Ssh } from './ssh.js';

/** The hidden verb that counts them. */
export const probeVerb = 'migrate-probe';

const ready = 'ready\n';
/** As many as are needed for a rate, or what goes in this time. */
const most = { bytes: 16 << 20, ms: 2000 } as const;
/** One after the other is waited for, so that a slow connection has little on its way at the end. */
const chunkBytes = 64 << 10;
/** Time for ssh, the program there, and a connection that is next to none. */
const limitMs = 60_000;

/** Bytes per second. Throws E_HOST where there is no answer, E_TIMEOUT, E_CANCELLED after `signal`. */
export async function measureRate(host: string, signal: AbortSignal): Promise<number> {
  const ssh = await Ssh.open(host, ['kfd-checkpoint', probeVerb]);
  const limit = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
  const stop = () => ssh.end();
  limit.addEventListener('abort', stop, { once: true });
  if (limit.aborted) stop();
  try {
    const { bytes, ms } = await exchange(ssh.child.stdin as Writable, ssh.child.stdout as Readable);
    if (bytes > 0) return Math.max(1, Math.round((bytes / Math.max(ms, 1)) * 1000));
    if (signal.aborted) throw new KfdError('E_CANCELLED', 'migrate: interrupted');
    if (!limit.aborted) throw await ssh.gone();
    throw new KfdError('E_TIMEOUT', `${host}: took no bytes in ${limitMs / 1000} s`);
  } finally {
    limit.removeEventListener('abort', stop);
    await ssh.close();
  }
}

/** What has arrived, and how long it took. No bytes: the other side has gone. */
async function exchange(input: Writable, output: Readable): Promise<{ bytes: number; ms: number }> {
  const words = output.setEncoding('utf8')[Symbol.asyncIterator]() as AsyncIterator<string>;
  input.on('error', () => undefined);
  let said = '';
  const hears = async (end: RegExp) => {
    while (!end.test(said)) {
      const { value, done } = await words.next();
      if (done === true) return false;
      said += value;
    }
    return true;
  };
  if (!(await hears(/^ready\n/))) return { bytes: 0, ms: 0 };
  const chunk = randomBytes(chunkBytes);
  const begun = performance.now();
  for (let sent = 0; sent < most.bytes && performance.now() - begun < most.ms; sent += chunkBytes) {
    if (!input.write(chunk)) await Promise.race([once(input, 'drain'), once(input, 'close')]);
    if (input.destroyed) return { bytes: 0, ms: 0 };
  }
  input.end();
  if (!(await hears(/\n\d+\n/))) return { bytes: 0, ms: 0 };
  return { bytes: Number(said.slice(ready.length)), ms: performance.now() - begun };
}

/** The other end: says that it has begun, and how many have come. */
export async function countBytes(input: Readable, say: (text: string) => void): Promise<void> {
  say(ready);
  let bytes = 0;
  for await (const chunk of input) bytes += (chunk as Buffer).length;
  say(`${bytes}\n`);
}
