/** The proxy as a server: one ProxyConnection for each connection of containerd. */

import { connect, createServer, type Server } from 'node:net';
import { Client } from '../../src/ttrpc/client.js';
import type { Intercept } from '../intercept/interception.js';
import { ProxyConnection } from './proxy-connection.js';

/** Returns a server that does not listen yet. Its stock shim listens at `stockSocket`. */
export function proxyFor(stockSocket: string, intercept: Intercept): Server {
  return createServer((downstream) => {
    // The socket keeps data that is sent before it is connected.
    const upstream = new Client(connect(stockSocket), () => connection.end());
    const connection = new ProxyConnection(downstream, upstream, intercept);
  });
}
