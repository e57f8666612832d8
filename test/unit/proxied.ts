/** The shim's proxy before a stock shim that answers as it is told. */

import { once } from 'node:events';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Intercept } from '../../shim/intercept/interception.js';
import { proxyFor } from '../../shim/proxy/server.js';
import { temporaryFolder } from './paths.js';
import { type Answering, testServer } from './ttrpc-server.js';

/** The stock shim that a proxy is put before, and the path of the proxy. Both end with the test. */
export async function proxied(
  t: TestContext,
  answering: Answering,
  intercept: Intercept = () => undefined,
) {
  const stock = await testServer(t, answering);
  const path = join(await temporaryFolder(t), 'proxy');
  const server = proxyFor(stock.path, intercept);
  server.listen(path);
  await once(server, 'listening');
  t.after(() => server.close());
  return { stock, path };
}
