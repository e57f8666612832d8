/** The proxy as a server: a link for every connection, and an end when the stock shim has ended. */

import { connect, createServer, type Server } from 'node:net';
import { Client } from '../transport/client.js';
import { Link } from './link.js';

/** A server that is not listening yet, for the stock shim that listens at the socket `child`. */
export function proxyFor(child: string): Server {
  return createServer((down) => {
    // What is sent before the connection stands waits in it.
    const up = new Client(connect(child), () => link.end());
    const link = new Link(down, up);
  });
}
