/**
 * A stock shim that nobody will come for: containerd was killed before it had noted where the shim is, or before it had told it
 * to end. The stock shim would stay, and we with it.
 */

import type { Server } from 'node:net';

/** Containerd connects at once, and again within seconds of its start. Milliseconds. */
const patienceMs = 30_000;

/**
 * Calls `end` whenever `server` has had no connection for `patienceMs`. With containers the stock shim is to go on, however long
 * containerd is away: that is for `end` to see.
 */
export function watchForCallers(server: Server, end: () => void, afterMs = patienceMs): void {
  let callers = 0;
  let timer = setTimeout(end, afterMs);
  server.on('connection', (socket) => {
    callers += 1;
    clearTimeout(timer);
    socket.on('close', () => {
      callers -= 1;
      if (callers === 0) timer = setTimeout(end, afterMs);
    });
  });
  server.on('close', () => clearTimeout(timer));
}
