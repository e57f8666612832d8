/** The proxy as a server: a link for every connection. */

import { connect, createServer, type Server } from 'node:net';
import type { Intercept } from '../intercept/interception.js';
import { Client } from '../transport/client.js';
import { Link } from './link.js';

/** A server that is not listening yet, for the stock shim that listens at the socket `child`. */
export function proxyFor(child: string, intercept: Intercept): Server {
  return createServer((down) => {
    // What is sent before the connection stands waits in it.
    const up = new Client(connect(child), () => link.end());
    const link = new Link(down, up, intercept);
  });
}
