/**
 * Ends a stock shim that nobody will use again. containerd was killed before it had recorded the shim's
 * address, or before it had sent Shutdown. Without this, stock shim and proxy would stay for ever.
 */

import type { Server } from 'node:net';

/** Milliseconds. containerd connects at once, and again within seconds after its own start. */
const idleMs = 30_000;

/**
 * Calls `end` whenever `server` had no connection for `afterMs`. `end` must not end a stock shim that
 * has containers: these run on, however long containerd is away.
 */
export function watchForIdle(server: Server, end: () => void, afterMs = idleMs): void {
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
