/** A proxy before a stock shim of the test, with an interceptor and a helper that the test plays. */

import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Helper } from '../../shim/intercept/helper.js';
import { Interceptor } from '../../shim/intercept/interceptor.js';
import { proxyFor } from '../../shim/proxy/server.js';
import { bytesField, fieldsOf } from '../../src/protobuf.js';
import { type Client, connectTo } from '../../src/ttrpc/client.js';
import { type Call, encodeResponse } from '../../src/ttrpc/envelope.js';
import { temporaryFolder } from './paths.js';
import { type Answering, testServer } from './ttrpc-server.js';

export const service = 'containerd.task.v2.Task';

export interface World {
  /** Where containerd unpacks checkpoints. It holds the bundle too. */
  readonly folder: string;
  readonly bundle: string;
  readonly seen: Call[];
  readonly asked: (readonly string[])[];
  readonly troubles: unknown[];
  readonly client: Client;
  call(method: string, ...fields: Buffer[]): ReturnType<Client['call']>;
}

/** A proxy that intercepts, a stock shim that answers by `answering`, a helper that answers by `help`. */
export async function world(
  t: TestContext,
  {
    answering = () => ({}),
    help = () => Buffer.alloc(0),
    spec = {} as object,
    hasPlugin = false,
  } = {} as {
    answering?: Answering;
    help?: (
      args: readonly string[],
      input: Buffer,
      signal?: AbortSignal,
    ) => Buffer | Promise<Buffer>;
    spec?: object;
    /** Whether "configure" has installed the plugin. */
    hasPlugin?: boolean;
  },
): Promise<World> {
  const seen: Call[] = [];
  const asked: (readonly string[])[] = [];
  const troubles: unknown[] = [];
  const stock = await testServer(t, (request) => {
    seen.push(request);
    return answering(request);
  });
  const helper: Helper = async (args, input, signal) => {
    asked.push(args);
    return help(args, await input, signal);
  };
  const folder = await temporaryFolder(t);
  const places = {
    plugin: join(folder, hasPlugin ? 'bundle' : 'no-plugin'),
    hostConfig: join(folder, 'no-config'),
    run: join(folder, 'run'),
  };
  const interceptor = new Interceptor(helper, (trouble) => troubles.push(trouble), folder, places);
  const bundle = join(folder, 'bundle');
  await mkdir(bundle);
  await writeFile(join(bundle, 'config.json'), JSON.stringify(spec));
  const server = proxyFor(stock.path, (call, one) => interceptor.intercept(call, one));
  server.listen(join(folder, 'proxy'));
  await once(server, 'listening');
  const client = await connectTo(join(folder, 'proxy'), () => undefined);
  t.after(() => {
    client.close();
    server.close();
  });
  const call = (method: string, ...fields: Buffer[]) =>
    client.call({ service, method, payload: Buffer.concat(fields) }, 5_000);
  return { folder, bundle, seen, asked, troubles, client, call };
}

/** A field of a message; bytes as text. */
export function field(message: Buffer, wanted: number): string {
  const values = [...fieldsOf(message)].filter(({ number }) => number === wanted);
  return String(values.at(-1)?.value ?? '');
}

export const id = bytesField(1, 'one');
export const refusal = encodeResponse({
  code: 9,
  message: 'E_VRAM: no; E_NO_GPU: no',
  payload: Buffer.alloc(0),
});
